"""Attention of NumPy's arrays, against NumPy.

    python examples/dispatch/fmha/05_numpy.py
"""

from contextlib import closing

import numpy as np
from shown import choose

from ckmlir.runtime import open_device
from ckmlir.targets import get_target


def main() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 2, 40, 32)).astype(np.float16) for _ in range(3))
    o = np.empty_like(q)
    chosen = choose("fmha_fwd", h=2, sq=40, sk=40, d=32)
    with closing(open_device("auto", get_target("gfx942"))) as device, closing(chosen.executable(device)) as attention:
        attention(q=q, k=k, v=v, o=o)
    scores = q.astype(float) @ k.astype(float).swapaxes(2, 3) / np.sqrt(32)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    error = np.abs(o - weights / weights.sum(axis=3, keepdims=True) @ v.astype(float)).max()
    print("largest error:", error)
    assert error < 0.01


if __name__ == "__main__":
    main()
