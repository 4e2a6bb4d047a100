"""Products of NumPy's arrays, by a dispatcher's kernels and by the functions on arrays, against NumPy.

    python examples/dispatch/05_numpy.py
"""

from contextlib import closing

import numpy as np

from ckmlir import nn
from ckmlir.dispatch import Dispatcher, Registry
from ckmlir.runtime import open_device
from ckmlir.targets import get_target


def main() -> None:
    gfx942 = get_target("gfx942")
    random = np.random.default_rng(0)
    a, b = random.standard_normal((100, 64)).astype(np.float16), random.standard_normal((64, 72)).astype(np.float16)
    c, expected = np.empty((100, 72), np.float16), a.astype(float) @ b.astype(float)
    dispatcher = Dispatcher(Registry(), gfx942)  # no kernels of its own: the operator chooses
    with closing(open_device("auto", gfx942)) as device:
        with closing(dispatcher.select("gemm", m=100, n=72, k=64, layout="RRR").executable(device)) as gemm:
            gemm(a=a, b=b, c=c)
        with nn.Session(device=device, dispatcher=dispatcher):
            other = nn.matmul(a, b)
    for found in (c, other):
        error = np.abs(found - expected).max()
        print("largest error:", error)
        assert error < 0.05
    print("misses:", *(" ".join(map(str, request)) for request in dispatcher.misses))


if __name__ == "__main__":
    main()
