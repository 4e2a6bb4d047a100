"""Products of few rows: the default kernel beside others that were tried, by the model of time.

    python benchmarks/small_m.py [--arch gfx942] [--m 1,16,28,64] [--shapes 384x1536,1024x8192] [--dtype f16]

For each product the cycles of all its kernels, without the time between them: of the default, and of the fastest of a
list of blocks, schedules and parts of K. The last column is the default's cycles in relation to those: what is above
1.10 leaves something to choose better. Every number is the model's, with all workgroups of a compute unit simulated
together: one alone makes too little of what many small blocks want of caches and memory. Prints a table and a JSON
line.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from typing import Any

from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.runtime.timing import model_kernels
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target
from ckmlir.targets.target import Target

GEMM = find_operator("gemm")
BLOCKS = (
    ((16, 16), (1, 1)), ((16, 32), (1, 2)), ((16, 64), (1, 4)), ((16, 128), (1, 4)), ((32, 32), (2, 2)),
    ((32, 64), (2, 2)), ((32, 64), (1, 4)), ((32, 128), (1, 4)), ((64, 64), (2, 2)), ((64, 128), (2, 2)),
)  # fmt: skip
"""Rows and columns, and waves along them; with 128 and 256 bytes along K."""
SCHEDULES = ("compv4", "mem3", "v4", "compv3")
SHAPES = "384x1536,1024x8192,2048x2048,4096x4096,8192x1536,8192x8192"


def main() -> None:
    """Try and print."""
    parser = argparse.ArgumentParser(description="blocks for products of few rows")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--m", default="1,16,28,64")
    parser.add_argument("--shapes", default=SHAPES, help="n x k, separated by commas")
    parser.add_argument("--default", action="store_true", help="the defaults alone")
    options = parser.parse_args()
    target, rows = get_target(options.arch), []
    print("| m | n | k | default | cycles | fastest tried | cycles | ratio |\n|---|---|---|---|---|---|---|---|")
    for shape, m in itertools.product(options.shapes.split(","), map(int, options.m.split(","))):
        n, k = map(int, shape.split("x"))
        keys = {"m": m, "n": n, "k": k, "dtype": options.dtype}
        own = cycles(keys, target)
        tried = [] if options.default else list(others(keys, target))
        best, plan = min([(own, {}), *tried], key=lambda one: one[0])
        rows.append({**keys, "default": own, "best": best, "plan": {name: str(value) for name, value in plan.items()}})
        words = ", ".join(f"{name}={written(value)}" for name, value in plan.items())
        print(f"| {m} | {n} | {k} | {chosen(keys, target)} | {own} | {words or 'the default'} | {best} "
              f"| {own / best:.2f} |", flush=True)  # fmt: skip
    print(json.dumps({"arch": options.arch, "rows": rows}))


def others(keys: dict[str, Any], target: Target) -> Iterator[tuple[int, dict[str, Any]]]:
    """Cycles of what else can be asked for, with one part of K, and with as many as fill the chip, or half of it."""
    size = find_dtype(GEMM.problem(**keys).stored).bytes
    for ((rows, columns), waves), length, schedule in itertools.product(BLOCKS, (128, 256), SCHEDULES):
        if rows >= 2 * max(keys["m"], 16):
            continue
        depth = length // size
        blocks, steps = ceil_div(keys["m"], rows) * ceil_div(keys["n"], columns), ceil_div(keys["k"], depth)
        full = max(target.compute_units // blocks, 1)
        for parts in sorted({max(min(parts, steps), 1) for parts in (1, full // 2, full)}):
            if 4 * blocks * parts < min(target.compute_units, steps * blocks):
                continue  # most of the chip idles
            plan = {"block": (rows, columns, depth), "wave": waves, "schedule": schedule, "split_k": parts}
            try:
                yield cycles({**keys, **plan}, target), plan
            except CkmlirError:
                continue  # does not fit


def cycles(keys: dict[str, Any], target: Target) -> int:
    """Of all kernels of a product."""
    parameters = load(target.name)
    found = model_kernels(GEMM, GEMM.problem(**keys), target, parameters, mode="sampled")
    return round(sum(one.under(parameters).grid.cycles for one in found))


def chosen(keys: dict[str, Any], target: Target) -> str:
    """The default's plan in words."""
    problem = GEMM.problem(**keys)
    spec = GEMM.spec(problem, target)
    launch = GEMM.launch(problem, spec, target)
    return f"block={written(spec.block)}, wave={written(spec.waves)}, split_k={launch.grid[2]}, {spec.schedule}"


def written(value: Any) -> str:
    """As a request writes it."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


if __name__ == "__main__":
    main()
