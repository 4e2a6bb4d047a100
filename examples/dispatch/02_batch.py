"""A list of problems through one dispatcher: which kernel each gets, each run and compared with NumPy.

    python examples/dispatch/02_batch.py
"""

from contextlib import closing

import numpy as np

from ckmlir.dispatch import Dispatcher, Registry, SizeBuckets, Space
from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, open_device
from ckmlir.targets import get_target


def main() -> None:
    gemm, gfx942 = find_operator("gemm"), get_target("gfx942")
    fields = {"block": ((32, 64, 64), (64, 64, 64), (128, 128, 64)), "mfma": ((16, 16, 16),), "pad": ("mnk",)}
    sizes = {"m": (100,), "n": (72,), "k": (64,)}
    registry = Registry(Space(gemm, (gfx942,), sizes, fields).expand().kernels, name="blocks")
    dispatcher = Dispatcher(registry, gfx942, SizeBuckets("m"))
    with closing(open_device("auto", gfx942)) as device:
        for m, n, k in ((16, 72, 64), (64, 64, 64), (100, 72, 64), (256, 128, 128), (33, 8, 200)):
            chosen = dispatcher.select("gemm", m=m, n=n, k=k)
            arrays = gemm.inputs(chosen.query.problem, gfx942)
            c = np.empty((m, n), np.float16)
            with closing(chosen.executable(device)) as run:
                run(**arrays, c=c)
            (found,) = check_outputs(gemm, chosen.query.problem, arrays, {"c": c}, gfx942)
            assert found.ok, found
            print(f"{m:>4} x {n:<4} {chosen.kernel.spec.block}: {found}")


if __name__ == "__main__":
    main()
