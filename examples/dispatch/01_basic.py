"""One kernel in a registry, chosen for a problem, run and compared with NumPy.

    python examples/dispatch/01_basic.py

It runs on a GPU of the chip, else on the simulator, as all examples here that run something.
"""

from contextlib import closing

import numpy as np

from ckmlir.dispatch import Dispatcher, Kernel, Registry
from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.targets import get_target


def main() -> None:
    gemm, gfx942 = find_operator("gemm"), get_target("gfx942")
    request = {"m": 100, "n": 72, "k": 64}
    kernel = Kernel(gemm, gemm.spec(gemm.problem(**request), gfx942), gfx942)
    chosen = Dispatcher(Registry([kernel]), gfx942).select("gemm", **request)
    print(chosen)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((100, 64), (72, 64)))
    c = np.empty((100, 72), np.float16)
    with closing(open_device("auto", gfx942)) as device, closing(chosen.executable(device)) as run:
        run(a=a, b=b, c=c)
    error = np.abs(c - a.astype(float) @ b.T.astype(float)).max()
    print("largest error:", error)
    assert error < 0.05


if __name__ == "__main__":
    main()
