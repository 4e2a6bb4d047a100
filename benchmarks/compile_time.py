"""Time from an operator to a code object in a warm process, split into our Python, MLIR and LLVM.

    python benchmarks/compile_time.py [--repeats 7] [--arch gfx942]

Prints a table and one JSON line. `python` is tracing and every pass of ours, `mlir` the upstream passes and
verification, `llvm` the backend, `link` the linker: medians of several compilations, each behind one not counted.
`cpu` is what the processor spent on a whole compilation, child processes included, in the fastest one: the figure to
look at on a busy machine. Where the package `triton` is installed, `triton` is the same figure for the same kernel
there (triton_kernels.py), in turns with ours: in the form of Triton's tutorials, and in brackets in the least form.
Ratios within one run are what to compare; for orientation, figures of Triton 3.9 on two other cores are 0.30 s for the
GEMM and 0.78 s for the attention kernel, 0.097 s for layernorm, 0.067 s for rmsnorm, 0.125 s for softmax, 0.087 s for
a transpose and 0.042 s for a copy of 4096 columns.
"""

import argparse
import importlib.util
import json
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

KERNELS = {
    "gemm f16 128x128x64": (
        "gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "f16", "block": (128, 128, 64), "schedule": "compv3"},
    ),
    "gemm f16, default": ("gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "f16"}),
    "fmha_fwd f16 d128": ("fmha_fwd", {"b": 1, "h": 16, "sq": 4096, "d": 128, "dtype": "f16"}),
    "layernorm2d f16 n4096": ("layernorm2d", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "rmsnorm2d f16 n4096": ("rmsnorm2d", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "softmax f16 n4096": ("softmax", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "transpose2d f16": ("transpose2d", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "copy f16": ("copy", {"m": 4096, "n": 4096, "dtype": "f16"}),
    "reduce f16 n4096": ("reduce", {"shape": (4096, 4096), "dtype": "f16"}),
    "elementwise f16": ("elementwise", {"shape": (4096, 4096), "dtype": "f16"}),
}  # fmt: skip
MEDIANS = ("python", "mlir", "llvm", "link", "total")
PARTS = (*MEDIANS, "cpu")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time from operator to code object")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--arch", default="gfx942")
    options = parser.parse_args()
    others = find_others()
    results = {name: measure(name, options.repeats, options.arch, others(name, options.arch)) for name in KERNELS}
    print(f"{'kernel':24}" + "".join(f"{part:>10}" for part in PARTS) + "    triton   ratio")
    for name, parts in results.items():
        line = f"{name:24}" + "".join(f"{1e3 * parts[part]:7.1f} ms" for part in PARTS)
        for form in ("triton", "triton least"):
            if form in parts:
                line += f"{1e3 * parts[form]:7.1f} ms  {parts['cpu'] / parts[form]:6.2f}"
        print(line)
    print(json.dumps({"arch": options.arch, "seconds": results}))


def find_others() -> Callable[[str, str], list[Callable[[], Any]]]:
    """What gives the same kernel in Triton, compiled when called; nothing where Triton is not installed."""
    if importlib.util.find_spec("triton") is None:
        print("triton is not installed: the column of its times is left out")
        return lambda name, arch: []
    from triton_kernels import compilers

    return compilers


def measure(name: str, repeats: int, arch: str, others: list[Callable[[], Any]]) -> dict[str, float]:
    """Seconds by part: medians, and the least of `cpu` and of what the others take."""
    operator_name, keys = KERNELS[name]
    operator, target = find_operator(operator_name), get_target(arch)
    spec = operator.spec(operator.problem(**keys), target)
    rows: list[dict[str, float]] = []
    for _ in range(repeats):
        compile_kernel(operator, spec, target)  # so that caches are warm, for Triton's turns as well
        before = _processor_seconds()
        start = time.perf_counter()
        timings = compile_kernel(operator, spec, target).timings
        total = time.perf_counter() - start
        known = {
            "python": sum(seconds for step, seconds in timings.items() if step.startswith("ck-") or step == "trace"),
            "mlir": sum(seconds for step, seconds in timings.items() if "convert-" in step),
            "llvm": timings["llvm"],
            "link": timings["link"],
        }
        row = {**known, "total": total, "cpu": _processor_seconds() - before}
        for form, other in zip(("triton", "triton least"), others, strict=False):
            other()
            before = _processor_seconds()
            other()
            row[form] = _processor_seconds() - before
        rows.append(row)
    least = {part: min(row[part] for row in rows) for part in rows[0] if part not in MEDIANS}
    return {part: statistics.median(row[part] for row in rows) for part in MEDIANS} | least


def _processor_seconds() -> float:
    """What this process and the children that have ended have used so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
