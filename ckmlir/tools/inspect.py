"""`ckmlir inspect`: what is in an AMDGPU code object: kernels, arguments, registers, LDS, spills, instructions."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ckmlir.codeobject import CodeObject, Kernel
from ckmlir.codeobject.remarks import narrow_accesses
from ckmlir.errors import counted
from ckmlir.lowering.occupancy import kernel_occupancy
from ckmlir.records import plain
from ckmlir.sim.decode import disassemble, instruction_mix
from ckmlir.tools.code_file import read_code_object


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a code object, or an MLIR module of any stage")
    parser.add_argument("--arch", metavar="A", help="of a bundle with code for several chips")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def execute(options: argparse.Namespace) -> int:
    report = describe(read_code_object(options.file, options.arch))
    print(json.dumps(report) if options.json else _text(report))
    return 0


def describe(code_object: CodeObject) -> dict[str, Any]:
    """Everything that `inspect` says, in JSON's types."""
    return {
        "target": code_object.target_id,
        "code_object_version": code_object.version,
        "bytes": len(code_object.data),
        "kernels": [_kernel(code_object, kernel) for kernel in code_object.kernels.values()],
    }


def _kernel(code_object: CodeObject, kernel: Kernel) -> dict[str, Any]:
    metadata = kernel.metadata
    mix, mix_missing = _instruction_mix(code_object, kernel)
    occupied, occupancy_missing = _occupancy(code_object, kernel)
    return {
        "name": kernel.name,
        "code_bytes": kernel.size,
        "arguments": [
            {
                "name": argument.name,
                "offset": argument.offset,
                "size": argument.size,
                "kind": argument.value_kind,
                "address_space": argument.address_space,
            }
            for argument in kernel.arguments
        ],
        "has_metadata": metadata.is_stated,
        "kernarg_bytes": metadata.kernarg_size,
        "vector_registers": metadata.vgpr_count,
        "accumulation_registers": metadata.agpr_count,
        "scalar_registers": metadata.sgpr_count,
        "vector_spills": metadata.vgpr_spill_count,
        "scalar_spills": metadata.sgpr_spill_count,
        "lds_bytes": metadata.group_segment_size,
        "scratch_bytes": metadata.private_segment_size,
        "max_workgroup_size": metadata.max_flat_workgroup_size,
        "narrow_accesses": [plain(one) for one in narrow_accesses(metadata.notes)],
        "occupancy": occupied,
        "occupancy_missing": occupancy_missing,
        "instructions": mix,
        "instructions_missing": mix_missing,
    }


def _instruction_mix(code_object: CodeObject, kernel: Kernel) -> tuple[dict[str, int] | None, str | None]:
    """Instructions by category, or None and why they cannot be counted."""
    try:
        return dict(instruction_mix(disassemble(code_object, kernel.name))), None
    except ValueError as error:  # UnknownInstruction, or a chip that is not described
        return None, str(error)


def _occupancy(code_object: CodeObject, kernel: Kernel) -> tuple[dict[str, Any] | None, str | None]:
    """What fits on a compute unit with the largest workgroup, or None and why that is not known."""
    try:
        return plain(kernel_occupancy(code_object, kernel.name)), None
    except ValueError as error:  # a chip that is not described, or a kernel that fits none
        return None, str(error)


def _text(report: dict[str, Any]) -> str:
    lines = [f"{report['target']}, code object version {report['code_object_version']}, {report['bytes']} bytes"]
    for kernel in report["kernels"]:
        lines += ["", f"{kernel['name']}: {kernel['code_bytes']} bytes of code"]
        lines += [f"  {name:<18}{value}" for name, value in _rows(kernel)]
        lines += [
            f"    {argument['offset']:>4} {argument['size']:>3}  {argument['kind']:<24}{argument['name']}".rstrip()
            for argument in kernel["arguments"]
        ]
    return "\n".join(lines)


def _rows(kernel: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a kernel uses, as label and value."""
    accumulation, spilled = kernel["accumulation_registers"], kernel["vector_spills"]
    yield "vector registers", f"{kernel['vector_registers']}, {accumulation} for accumulation; {spilled} spilled"
    yield "scalar registers", f"{kernel['scalar_registers']}; {kernel['scalar_spills']} spilled"
    yield "memory", f"{kernel['lds_bytes']} bytes of LDS, {kernel['scratch_bytes']} of scratch a work-item"
    narrow = sum(one["count"] for one in kernel["narrow_accesses"])
    yield "narrow accesses", f"{narrow} in {len(kernel['narrow_accesses'])} places" if narrow else "none"
    yield "workgroup", f"at most {kernel['max_workgroup_size']} work-items"
    occupied, mix = kernel["occupancy"], kernel["instructions"]
    if occupied:
        yield "occupancy", f"{counted(occupied['waves_per_simd'], 'wave')} a SIMD, limited by {occupied['limiter']}"
    else:
        yield "occupancy", f"unknown: {kernel['occupancy_missing']}"
    if mix is not None:
        yield "instructions", ", ".join(f"{count} {category}" for category, count in mix.items() if count)
    else:
        yield "instructions", f"unknown: {kernel['instructions_missing']}"
    if kernel["has_metadata"]:
        yield "arguments", f"{kernel['kernarg_bytes']} bytes"
    else:
        yield "arguments", "unknown: the code object has no metadata"
