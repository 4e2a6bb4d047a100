"""Pieces of tolerances: how many roundings a sum over a row goes through, and functions that jump."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import ceil_div
from ckmlir.targets.cdna import WAVE_SIZE

UNIT = find_dtype("f32").unit_roundoff


def fold_steps(n: int) -> int:
    """Roundings between an element of a row of n and the row's sum, at most.

    A work-item adds at most n / 64 elements one after another (a short row lies in fewer lanes, but in at most 16
    elements of each), and up to eight combinations of two roundings each join lanes and waves.
    """
    return max(16, ceil_div(n, WAVE_SIZE)) + 16


def through_jumps(values: Array, error: Array, function: Callable[[Array], Array]) -> Array:
    """How far `function` (monotone, perhaps with jumps, such as a rounding) may move within an error of its argument.

    Zero wherever no jump is near, so that a result which rounds at another place, or not at all, does not pass.
    """
    with np.errstate(invalid="ignore"):
        here = function(values)
        far = np.maximum(np.abs(function(values + error) - here), np.abs(function(values - error) - here))
    bounded: Array = np.nan_to_num(far, nan=0.0, posinf=0.0)
    return bounded
