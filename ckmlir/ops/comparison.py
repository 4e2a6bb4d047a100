"""Comparing a kernel's output with its reference: |output - reference| <= atol + rtol * |reference|, elementwise.

Where the reference is infinite or NaN, the output has to be the same. An infinite output stands for the least number
that its dtype rounds to infinity: near that, an error within the tolerance decides whether a number overflows. Elements
of which an operator promises nothing (an overflow on the way that depends on the order of a sum, say) are counted and
not compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]


class Tolerance(Struct, frozen=True, eq=False):
    """The largest accepted error, and the one-line reason for it.

    Attributes:
        atol: may differ from element to element.
        unspecified: elements of which nothing is promised.
    """

    rtol: float
    atol: float | Array
    reason: str
    unspecified: bool | Array = False

    @property
    def largest_atol(self) -> float:
        """The largest finite `atol`."""
        bounds = np.asarray(self.atol, np.float64)
        return float(bounds.max(initial=0.0, where=np.isfinite(bounds)))


class Difference(Struct, frozen=True):
    """One element that is compared: where, what came out, what was expected."""

    index: tuple[int, ...]
    actual: float
    expected: float


class Comparison(Struct, frozen=True):
    """The outcome for one array.

    Attributes:
        elements: how many elements there are.
        unspecified: how many of them were not compared, since nothing is promised of them.
        mismatches: how many of them are out of tolerance.
        max_abs_err: largest |output - reference|; infinite where only one of them is finite.
        max_rel_err: largest |output - reference| / |reference| of the elements whose reference exceeds their absolute
            tolerance (below it that decides); 0 when there is none.
        worst: the element that exceeds its tolerance by most, None when all agree.
    """

    name: str
    elements: int
    mismatches: int
    max_abs_err: float
    max_rel_err: float
    worst: Difference | None
    tolerance: Tolerance
    unspecified: int = 0

    @property
    def ok(self) -> bool:
        return self.mismatches == 0

    def __str__(self) -> str:
        """One line: agreement with the largest errors, or where it disagrees and by how much."""
        limits = f"rtol {self.tolerance.rtol:.3g}, atol {self.tolerance.largest_atol:.3g}"
        errors = f"max abs err {self.max_abs_err:.3g}, max rel err {self.max_rel_err:.3g} ({limits})"
        if self.unspecified:
            errors += f"; nothing is promised of {self.unspecified} elements"
        if self.worst is None:
            return f"{self.name}: {self.elements - self.unspecified} elements agree, {errors}"
        place = ", ".join(map(str, self.worst.index))
        return (
            f"{self.name}: {self.mismatches} of {self.elements} elements disagree, worst at [{place}]: "
            f"got {self.worst.actual:.9g}, expected {self.worst.expected:.9g}, {errors}"
        )


def overflow(dtype: np.dtype[Any]) -> float:
    """The least number that a type rounds to infinity: half a step above its largest; infinite for integers."""
    if dtype.kind in "iub":
        return np.inf
    import ml_dtypes

    limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(limits.max) * (1 + float(limits.eps) / (4 - 2 * float(limits.eps)))


def compare(name: str, actual: Array, reference: Array, tolerance: Tolerance) -> Comparison:
    """Compare an output with its reference of the same shape. Raises ValueError for another shape."""
    if actual.shape != reference.shape:
        raise ValueError(f"{name}: output of shape {actual.shape}, reference of shape {reference.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = reference.astype(actual.dtype).astype(np.float64)
        got, wanted = actual.astype(np.float64), reference.astype(np.float64)
        finite = np.isfinite(wanted)
        error = np.abs(np.where(np.isinf(got), np.copysign(overflow(actual.dtype), got), got) - wanted)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        error = np.where(same & ~np.isfinite(rounded), 0.0, np.where(finite, error, np.inf))
        error = np.where(np.isnan(error), np.inf, error)  # NaN where a number was expected
        free = np.broadcast_to(np.asarray(tolerance.unspecified, np.bool_), error.shape)
        error = np.where(free, 0.0, error)
        magnitude = np.where(finite, np.abs(wanted), 0.0)
        atol = np.nan_to_num(np.asarray(tolerance.atol, np.float64), nan=0.0, posinf=0.0)  # no bound: no error accepted
        excess = error - (atol + tolerance.rtol * magnitude)
        counted = (magnitude > atol) & ~free
        relative = error[counted] / magnitude[counted]
    mismatches = int(np.count_nonzero(excess > 0))
    worst = None
    if mismatches:
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
        worst = Difference(index, float(got[index]), float(wanted[index]))
    return Comparison(
        name=name,
        elements=actual.size,
        mismatches=mismatches,
        max_abs_err=float(error.max(initial=0.0)),
        max_rel_err=float(relative.max(initial=0.0)),
        worst=worst,
        tolerance=tolerance,
        unspecified=int(np.count_nonzero(free)),
    )
