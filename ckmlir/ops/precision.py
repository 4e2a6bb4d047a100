"""Pieces of references and tolerances: the range of f32, steps of a sum over a row, functions with jumps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from msgspec import Struct

from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets.cdna import WAVE_SIZE

LOG2_E, LN_2 = math.log2(math.e), math.log(2)
"""Factors of natural logarithms that make them logarithms to the base 2, and the other way round."""
DENORMAL = 2.0**-149
"""The smallest number of f32."""
LEAST_EXPONENTIAL = LEAST_NORMAL_F32
"""An exponential that should be below this may be zero, since `v_exp_f32` makes no denormal numbers.

A weight P of softmax, which is at most 1, then lacks at most min(P, this). The same holds where what became zero is a
factor of P, by which a larger score or another share of the keys scales it, since P is at most that factor. Dividing by
the sum of the weights, which is at least 1, only makes the error smaller.
"""
OVERFLOW = 2.0**128 - 2.0**103
UNIT = find_dtype("f32").unit_roundoff


def sum_error(additions: float | Array, magnitudes: Array) -> Array:
    """How far sums of f32 are off at most after so many additions, in any order, of terms whose magnitudes add up to
    `magnitudes` (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2; n terms take n - 1)."""
    return np.asarray(additions * UNIT * magnitudes)


class Precision(Struct, frozen=True):
    """What kernels compute in, where NumPy has float64.

    Attributes:
        unit: largest relative error of rounding; of f64 twice that, since references round alike.
        least_normal: the smallest normal number.
        overflow: numbers of this size and more are infinite.
    """

    name: str
    unit: float
    least_normal: float
    overflow: float

    def within(self, values: Array) -> Array:
        """Numbers, infinite where the type has none so large."""
        return in_f32(values) if self.name == "f32" else np.asarray(values)

    def number(self, value: float) -> float:
        """A number as one of the type."""
        with np.errstate(over="ignore"):
            return float(np.float32(value)) if self.name == "f32" else value


PRECISIONS = {
    "f32": Precision("f32", UNIT, LEAST_NORMAL_F32, OVERFLOW),
    "f64": Precision("f64", 2 * find_dtype("f64").unit_roundoff, find_dtype("f64").least_normal, np.inf),
}
F32 = PRECISIONS["f32"]


def in_f32(values: Array) -> Array:
    """Numbers as f32 has them where it has none: infinite beyond the largest that rounds to a finite one."""
    found: Array = np.where(np.abs(values) >= OVERFLOW, np.copysign(np.inf, values), values)
    return found


def may_overflow(values: Array, error: Array) -> Array:
    """Where f32 may have a number or an infinity, of values that may be wrong by an error."""
    size = np.abs(values)
    with np.errstate(invalid="ignore"):
        found: Array = (size - error < OVERFLOW) & (size + error >= OVERFLOW)
    return found


def order_decides(terms: Array, axis: int | tuple[int, ...], precision: Precision = F32) -> Array:
    """Sums along `axis` of which a part may overflow, so that it depends on the order what comes out.

    A sum with NaN among its terms is NaN in any order.
    """
    sizes = np.where(np.isfinite(terms), np.abs(terms), 0.0).sum(axis=axis)
    found: Array = (sizes >= precision.overflow) & ~np.isnan(terms).any(axis=axis)
    return found


def products_lost(left: Array, right: Array, least: float) -> Array:
    """How much the products of every row of `left` with every one of `right` may lack where factors below `least` count
    as zero, by Euclidean lengths; what is not a number is left out.
    """

    def lengths(rows: Array, most: float) -> Array:
        kept = np.where(np.abs(rows) < most, rows, 0.0)
        found: Array = np.linalg.norm(kept, axis=-1)
        return found

    of_left, of_right = (np.outer(lengths(left, a), lengths(right, b)) for a, b in ((least, np.inf), (np.inf, least)))
    found: Array = of_left + of_right
    return found


def rows_of_numbers(x: Array) -> Array:
    """The rows, all NaN where one element is NaN or infinite."""
    found: Array = np.where(np.isfinite(x).all(axis=1, keepdims=True), x, np.nan)
    return found


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
