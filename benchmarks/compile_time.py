"""Time from an operator to a code object in a warm process, split into our Python, MLIR and LLVM.

    python benchmarks/compile_time.py [--repeats 7] [--arch gfx942]

Prints a table and one JSON line. `python` is tracing and every pass of ours, `mlir` the upstream passes and
verification, `llvm` the backend, `link` the linker. Medians of several compilations after one that warms caches up;
run it on a quiet machine. Ratios within one run are what to compare; for orientation, published figures of other
compilers on two cores are 0.30 s (Triton 3.9) for the GEMM and 0.78 s for the attention kernel, 0.097 s for layernorm,
0.067 s for rmsnorm and 0.125 s for softmax of 4096 columns.
"""

import argparse
import json
import statistics
import time

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

KERNELS = {
    "gemm f16 128x128x64": ("gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "f16"}),
    "fmha_fwd f16 d128": ("fmha_fwd", {"b": 1, "h": 16, "sq": 4096, "d": 128, "dtype": "f16"}),
    "layernorm2d f16 n4096": ("layernorm2d", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "rmsnorm2d f16 n4096": ("rmsnorm2d", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "softmax f16 n4096": ("softmax", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "transpose2d f16": ("transpose2d", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "copy f16": ("copy", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "reduce f16 n4096": ("reduce", {"shape": (4096, 4096), "dtype": "f16"}),
    "elementwise f16": ("elementwise", {"shape": (4096, 4096), "dtype": "f16"}),
}
PARTS = ("python", "mlir", "llvm", "link", "total")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time from operator to code object")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--arch", default="gfx942")
    options = parser.parse_args()
    results = {name: measure(name, options.repeats, options.arch) for name in KERNELS}
    print(f"{'kernel':24}" + "".join(f"{part:>10}" for part in PARTS))
    for name, parts in results.items():
        print(f"{name:24}" + "".join(f"{1e3 * parts[part]:7.1f} ms" for part in PARTS))
    print(json.dumps({"arch": options.arch, "seconds": results}))


def measure(name: str, repeats: int, arch: str) -> dict[str, float]:
    """Median seconds by part."""
    operator_name, keys = KERNELS[name]
    operator, target = find_operator(operator_name), get_target(arch)
    spec = operator.spec(operator.problem(**keys), target)
    rows: list[dict[str, float]] = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        timings = compile_kernel(operator, spec, target).timings
        total = time.perf_counter() - start
        known = {
            "python": sum(seconds for step, seconds in timings.items() if step.startswith("ck-") or step == "trace"),
            "mlir": sum(seconds for step, seconds in timings.items() if "convert-" in step),
            "llvm": timings["llvm"],
            "link": timings["link"],
        }
        rows.append({**known, "total": total})
    return {part: statistics.median(row[part] for row in rows[1:]) for part in PARTS}


if __name__ == "__main__":
    main()
