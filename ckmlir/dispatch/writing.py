"""Writing libraries (`library.py` reads them)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.digests import sha256
from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.library import KIND
from ckmlir.dispatch.reading import SCHEMA
from ckmlir.files import write_file


def write_library(
    path: Path, kernels: Iterable[tuple[Kernel, CompiledKernel, Mapping[str, object]]], toolchain: Mapping[str, str]
) -> None:
    """Write kernels, their code objects and what checks found to a file, whole or not at all.

    Equal kernels give equal files, in whatever order they come. Raises CkmlirError where it cannot be written.
    """
    rows: list[dict[str, Any]] = []
    content = bytearray()
    places: dict[str, int] = {}
    for kernel, compiled, checks in sorted(kernels, key=lambda one: one[0].identifier):
        digest = sha256(compiled.hsaco)
        if digest not in places:
            places[digest] = len(content)
            content += compiled.hsaco
        rows.append({
            "kernel": kernel.to_dict(), "symbol": compiled.kernel_name, "offset": places[digest],
            "size": len(compiled.hsaco), "sha256": digest, "resources": resources_of(compiled), "checks": dict(checks),
        })  # fmt: skip
    manifest = json.dumps({"toolchain": dict(toolchain), "kernels": rows}, separators=(",", ":")).encode()
    line = {
        KIND: SCHEMA, "manifest": len(manifest), "content": len(content),
        "sha256": sha256(manifest),
    }  # fmt: skip
    write_file(path, json.dumps(line).encode() + b"\n" + manifest + bytes(content))


def resources_of(compiled: CompiledKernel) -> dict[str, int]:
    """Registers, spills, LDS and scratch, in JSON's types; bytes, and numbers for each work-item."""
    found = compiled.code_object.kernel(compiled.kernel_name).metadata
    return {
        "vector_registers": found.vgpr_count,
        "scalar_registers": found.sgpr_count,
        "vector_spills": found.vgpr_spill_count,
        "scalar_spills": found.sgpr_spill_count,
        "lds": found.group_segment_size,
        "scratch": found.private_segment_size,
        "workgroup": found.max_flat_workgroup_size,
    }
