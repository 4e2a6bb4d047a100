"""Attention backward by workgroups that stay, in a fixed order, against one for each block of keys with atomics.

    python benchmarks/backward_shares.py [--arch gfx942] [--mask top_left]

Prints for every case the model's cycles of the main kernel with atomics and with shares, their ratio, and the bytes of
parts that are added later: with atomics, with a slot for each block of keys, and with shares. 128 channels. It takes
some minutes: the first kernel runs on the simulator. --bytes prints those alone. O and LSE are any numbers, since time
does not depend on them.
"""

import argparse
from random import Random
from typing import Any

import numpy as np

from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.plan import make_plan
from ckmlir.runtime.timing import OperatorModel
from ckmlir.sim.timing import parameters
from ckmlir.targets import Target, get_target

FMHA = find_operator("fmha_bwd")
KINDS: tuple[dict[str, Any], ...] = ({}, {"deterministic": 1}, {"deterministic": 1, "persistent": 1})
RANDOM = Random(3)
SHORT = tuple(RANDOM.randint(16, 256) for _ in range(300))
CASES: dict[str, dict[str, Any]] = {
    "300 sequences of 16 to 256; 8 heads": {"lengths": SHORT, "h": 8},
    "4096, 3072, 2048, 1024; 8 heads": {"lengths": (4096, 3072, 2048, 1024), "h": 8},
    "2048, 1536, 1024, 512; 16 heads": {"lengths": (2048, 1536, 1024, 512), "h": 16},
    "4096, 3072, 2048, 1024; 8 heads that share 2": {"lengths": (4096, 3072, 2048, 1024), "h": 8, "hk": 2},
}


def inputs(problem: Any, target: Target) -> dict[str, Any]:
    """Arrays of a problem, without computing attention."""
    generator, whole = np.random.default_rng(7), problem.attention
    lists = {**whole.queries.values(), **whole.keys.values()}
    return {
        one.name: lists[one.name].astype(np.int32)
        if one.name in lists
        else generator.standard_normal(one.shape, np.float32).astype(numpy_dtype(one.dtype, target))
        for one in FMHA.arrays(problem)
        if one.role == "in"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--mask", default="none")
    parser.add_argument("--bytes", action="store_true")
    options = parser.parse_args()
    target, numbers = get_target(options.arch), parameters.load(options.arch)
    for name, case in CASES.items():
        lengths = case["lengths"]
        asked = {"mode": "group", "seqlens_q": lengths, "seqlens_k": lengths, "mask": options.mask, "h": case["h"]}
        problems = [FMHA.problem(**asked, hk=case.get("hk"), **kind) for kind in KINDS]
        spaces = [make_plan(FMHA, problem, target).workspaces for problem in problems]
        parts = [sum(one.nbytes for one in some if one.name.endswith(("_parts", "_slots"))) for some in spaces]
        sizes = ", ".join(f"{size / 2**20:.0f}" for size in parts)
        print(f"{name}: {sizes} MiB of parts", flush=True)
        if options.bytes:
            continue
        before, after = (
            OperatorModel(FMHA, one, target, numbers, arrays=inputs(one, target)).under(numbers).grid.cycles
            for one in problems[::2]
        )
        print(f"    mask {options.mask}: {before:.0f} cycles, shares {after:.0f} ({after / before:.2f})", flush=True)


if __name__ == "__main__":
    main()
