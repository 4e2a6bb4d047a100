"""Forty-eight kernels of a GEMM, built into a library by all processors; each is then run and compared with NumPy.

    python examples/dispatch/07_stress.py [--kernels 48]
"""

import argparse
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from ckmlir.dispatch import Library, Space
from ckmlir.dispatch.building import build
from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, open_device
from ckmlir.runtime.executable import Executable
from ckmlir.targets import get_target


def main() -> None:
    parser = argparse.ArgumentParser(description="many kernels")
    parser.add_argument("--kernels", type=int, default=48)
    gemm, gfx942 = find_operator("gemm"), get_target("gfx942")
    sizes = {"m": (100,), "n": (72,), "k": (130,), "dtype": ("f16", "bf16")}
    fields = {
        "block": ((64, 64, 64), (128, 64, 64), (128, 128, 64)), "schedule": ("v1", "v2", "compv3", "compv4"),
        "epilogue": ("cshuffle", "direct"), "pad": ("mnk",),
    }  # fmt: skip
    kernels = Space(gemm, (gfx942,), sizes, fields).expand().kernels[: parser.parse_args().kernels]
    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        build(kernels, Path(directory) / "stress.ckl")
        library = Library.load(Path(directory) / "stress.ckl")
        print(f"{len(library)} kernels built in {time.perf_counter() - start:.1f} s")
        with library.attached(), closing(open_device("auto", gfx942)) as device:
            for kernel in library.registry():
                problem = gemm.problem(m=100, n=72, k=130, dtype=kernel.spec.dtype)
                arrays = gemm.inputs(problem, gfx942)
                arrays["c"] = np.empty((100, 72), arrays["a"].dtype)
                with closing(Executable(device, gemm, problem, spec=kernel.spec)) as run:
                    run(**arrays)
                assert all(one.ok for one in check_outputs(gemm, problem, arrays, arrays, gfx942)), kernel
    print("all are right")


if __name__ == "__main__":
    main()
