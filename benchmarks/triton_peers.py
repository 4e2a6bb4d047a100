"""Kernels of Triton as files that `peers.py` reads, beside others of its folder. Needs the package `triton`; nothing
runs on a GPU.

    python benchmarks/triton_peers.py FOLDER [--chip gfx942] [--only "gemm bf16"]

Products of A (m, k) times the transpose of B (n, k), and attention without LSE; of each the kernel that is the fastest
by the model of time, among those that `triton_in_time.py` and `triton_attention.py` try.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import triton_attention
import triton_in_time
from triton_in_time import Launch

from ckmlir.sim.timing.parameters import load

CHIPS = ("gfx942", "gfx950")
SIZES = (2048, 4096, 8192)
CHANNELS = (64, 128)
Works = dict[str, tuple[str, dict[str, Any], Callable[[str], Launch]]]
"""By name: our operator, keys that do the same, and Triton's kernel for a chip."""


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Triton's kernels for peers.py")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", choices=CHIPS, help="one chip only")
    parser.add_argument("--only", default="", help="work whose name has this")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for (name, (operator, keys, fastest)), chip in itertools.product(works().items(), CHIPS):
        if options.only in name and options.chip in (None, chip):
            write(options.folder / f"{chip} {name}, Triton", fastest(chip), operator, keys)
            print(name, chip, flush=True)


def works() -> Works:
    """Everything that is compared."""
    found: Works = {}
    for dtype, size in itertools.product(("f16", "bf16"), SIZES):
        keys = {"m": size, "n": size, "k": size, "dtype": dtype}
        found[f"gemm {dtype} {size}^3"] = "gemm", keys, fastest_product(keys)
    for channels, causal in itertools.product(CHANNELS, (False, True)):
        mask = {"mask": "bottom_right"} if causal else {}
        keys = {"b": 2, "h": 16, "sq": 4096, "d": channels, "dtype": "bf16", **mask}
        found[f"attention bf16 d{channels}{' causal' if causal else ''}"] = "fmha_fwd", keys, fastest_attention(keys)
    return found


def fastest_product(keys: dict[str, Any]) -> Callable[[str], Launch]:
    """Of Triton's products."""

    def found(chip: str) -> Launch:
        best = triton_in_time.fastest(keys, chip, load(chip))
        return triton_in_time.launch_of(keys, chip, best.tile, best.waves, best.packed)

    return found


def fastest_attention(keys: dict[str, Any]) -> Callable[[str], Launch]:
    """Of Triton's attention."""

    def found(chip: str) -> Launch:
        best = triton_attention.fastest(keys, chip, load(chip))
        return triton_attention.launch_of(keys, chip, best.tile, best.waves, best.stages)

    return found


def write(path: Path, launch: Launch, operator: str, keys: dict[str, Any]) -> None:
    """The code object, a description of its launch (`ckmlir time --launch`), and the work that it does."""
    code, described = path.with_name(f"{path.name}.hsaco"), path.with_name(f"{path.name}.launch.json")
    arrays = [("read", size) for size in launch.inputs] + [("write", size) for size in launch.outputs]
    arguments: list[dict[str, Any]] = [
        {"shape": [size], "dtype": "i8", "fill": "zeros", "access": access} for access, size in arrays
    ]
    for number in launch.numbers:
        dtype = "f32" if isinstance(number, np.floating) else "i32"
        arguments.append({"scalar": float(number) if dtype == "f32" else int(number), "dtype": dtype})
    arguments += [{"null": True}] * 2  # scratch memory, which it has none of
    code.write_bytes(launch.compiled.asm["hsaco"])
    described.write_text(json.dumps({
        "grid": list(launch.grid), "block": [64 * launch.waves], "dynamic_lds": launch.compiled.metadata.shared,
        "order": list(launch.order), "arguments": arguments,
    }))  # fmt: skip
    work = {"code": code.name, "launch": described.name, "operator": operator, "keys": keys}
    path.with_name(f"{path.name}.json").write_text(json.dumps(work))


if __name__ == "__main__":
    main()
