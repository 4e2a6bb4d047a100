"""Workgroups that stay against one for each block, by the model of time: grouped GEMM and stream-K.

    python benchmarks/persistent.py [--arch gfx942]

Prints for every case the cycles of both and their ratio. The model knows no waits of workgroups for each other.
"""

import argparse
from typing import Any

from ckmlir.ops import find_operator
from ckmlir.runtime.timing import OperatorModel
from ckmlir.sim.timing import parameters
from ckmlir.targets import get_target

SHORT = {"m": "2048,1792,2048,1536,1024,2048,512,2048", "n": 2048, "k": "64,32,96,128,64,32,64,32"}
MIXED = {"m": "2048,1024,512,256,128,2048,1024,512", "n": 2048, "k": "256,512,1024,512,256,128,256,64"}
WAVES = {"m": 2304, "n": 2432, "k": 4096}
"""18 x 19 blocks of 128 x 128: 1.1 for each compute unit of an MI300X."""
Case = tuple[str, tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]
CASES: tuple[Case, ...] = (
    *(
        (f"grouped, {name}", ("grouped_gemm", {**sizes, "persistent": 1}), ("grouped_gemm", {**sizes, "persistent": 0}))
        for name, sizes in (("many short sums", SHORT), ("sums of 64 to 1024", MIXED))
    ),
    *(
        (f"stream-K, {one}", ("streamk_gemm", {**WAVES, "reduction": one}), ("gemm", {**WAVES, "split_k": 1}))
        for one in ("linear", "tree", "atomic")
    ),
)


def cycles(name: str, keys: dict[str, Any], chip: str) -> float:
    """Of an operator's own kernel."""
    operator, target, numbers = find_operator(name), get_target(chip), parameters.load(chip)
    model = OperatorModel(operator, operator.problem(**keys), target, numbers, mode="sampled")
    return model.under(numbers).grid.cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="gfx942")
    chip = parser.parse_args().arch
    for what, stays, plain in CASES:
        one, other = cycles(*stays, chip), cycles(*plain, chip)
        print(f"{what}: {one:.0f} cycles instead of {other:.0f}, {one / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
