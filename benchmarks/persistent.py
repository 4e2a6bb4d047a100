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
SEVERAL = {**SHORT, "k": "384,192,384,384,96,384,192,384"}
MIXED = {"m": "2048,1024,512,256,128,2048,1024,512", "n": 2048, "k": "256,512,1024,512,256,128,256,64"}
WAVES = {
    "gfx90a": {"m": 1408, "n": 1408, "k": 4096},
    "gfx942": {"m": 2304, "n": 2432, "k": 4096},
    "gfx950": {"m": 3072, "n": 3072, "k": 4096},
}
"""11 x 11, 18 x 19 and 24 x 24 blocks of 128 x 128: 1.1 for each that a chip's compute units hold at a time."""
Case = tuple[str, tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]


def cases(chip: str) -> list[Case]:
    """What is compared on a chip: its name, and both kernels."""
    grouped = (("many short sums", SHORT), ("sums of 96 to 384", SEVERAL), ("sums of 64 to 1024", MIXED))
    found: list[Case] = [
        (f"grouped, {name}", ("grouped_gemm", {**sizes, "persistent": 1}), ("grouped_gemm", {**sizes, "persistent": 0}))
        for name, sizes in grouped
    ]
    for reduction in ("linear", "tree", "atomic"):
        shared = {**WAVES[chip], "reduction": reduction}
        found.append((f"stream-K, {reduction}", ("streamk_gemm", shared), ("gemm", {**WAVES[chip], "split_k": 1})))
    return found


def cycles(name: str, keys: dict[str, Any], chip: str) -> float:
    """Of an operator's own kernel."""
    operator, target, numbers = find_operator(name), get_target(chip), parameters.load(chip)
    model = OperatorModel(operator, operator.problem(**keys), target, numbers, mode="sampled")
    return model.under(numbers).grid.cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="gfx942")
    chip = parser.parse_args().arch
    for what, stays, plain in cases(chip):
        one, other = cycles(*stays, chip), cycles(*plain, chip)
        print(f"{what}: {one:.0f} cycles instead of {other:.0f}, {one / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
