"""A product is tuned by the model of time, and a dispatcher takes what came of it; no GPU is asked.

    python examples/dispatch/10_advanced_benchmark.py [--budget 10]
"""

import argparse
import tempfile
from pathlib import Path

from ckmlir.dispatch import Dispatcher, Registry, Space, read_records, tuned_table
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.tuning import Tuning
from ckmlir.ops import find_operator
from ckmlir.runtime.calls import open_workers
from ckmlir.targets import get_target


def main() -> None:
    parser = argparse.ArgumentParser(description="tuning")
    parser.add_argument("--budget", type=float, default=10.0)
    gemm, gfx942, sizes = find_operator("gemm"), get_target("gfx942"), {"m": 256, "n": 256, "k": 256}
    fields = {"block": ((64, 64, 64), (128, 64, 64)), "schedule": ("v1", "compv3"), "mfma": ((16, 16, 16),)}
    axes = {name: (value,) for name, value in sizes.items()}
    kernels = Space(gemm, (gfx942,), axes, fields).expand().kernels
    with tempfile.TemporaryDirectory() as directory, open_workers() as workers:
        path = Path(directory) / "tuned.jsonl"
        options = {"budget": parser.parse_args().budget}
        tuning = Tuning(Asked.of(gemm, sizes, gfx942), kernels, path, workers, **options)
        tuning.rank()
        records = read_records(path)
    for record in tuning.found.best():
        mark = "  (the operator's choice)" if record.kernel == tuning.found.own else ""
        print(f"{record.median_us:8.2f} µs by the model  {record.kernel.spec.name}{mark}")
    registry = Registry([tuning.found.own, *kernels])
    chosen = Dispatcher(registry, gfx942, tuned_table(records)).select("gemm", **sizes)
    assert chosen.kernel == tuning.found.best()[0].kernel
    print(chosen)


if __name__ == "__main__":
    main()
