"""What kernels of products may consist of, as data: `Operator.axes` of the family."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ckmlir.ops.contraction.contraction_spec import EPILOGUES, stored_type
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.targets import Target

SIDES, DEPTHS = (16, 32, 64, 128, 256), (32, 64, 128, 256)
"""Rows and columns of blocks, and bytes of their depth, that are worth trying."""
WAVES = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2))
"""Along m and n: up to two waves a SIMD."""


def axes_of(dtype: str, target: Target) -> dict[str, Sequence[object]]:
    """The values by field for products of a dtype; not all combinations make sense."""
    size = find_dtype(stored_type(dtype)).bytes
    blocks = itertools.product(SIDES, SIDES, (depth // size for depth in DEPTHS))
    shapes = dict.fromkeys((one.m, one.n, one.k) for one in target.mfmas(dtype) if not one.scaled)
    return {
        "block": tuple(blocks), "waves": WAVES, "mfma": tuple(shapes), "epilogue": EPILOGUES,
        "schedule": tuple(SCHEDULES),
    }  # fmt: skip
