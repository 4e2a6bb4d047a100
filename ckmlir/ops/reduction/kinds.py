"""The kinds of reductions: what is done to every element, how two results meet, what is done at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct


class Kind(Struct, frozen=True):
    """A kind of reduction.

    Attributes:
        before: an expression of `a`, applied to every element.
        combine: "+", "maximum" or "minimum".
        fold: the same on NumPy arrays: (array, axes) -> array. A number beats NaN in maxima and minima.
        identity: of floats; `integer_identity` of 32-bit integers.
        divides: the result is divided by the number of elements.
        partial: the kind that reduces partial results of this one.
    """

    before: str
    combine: str
    fold: Callable[..., Any]
    identity: float
    integer_identity: int
    partial: str
    divides: bool = False


SMALLEST, LARGEST = -(2**31), 2**31 - 1


def _sum(values: Any, axes: tuple[int, ...]) -> Any:
    return np.sum(values, axis=axes, dtype=values.dtype)


def _maximum(values: Any, axes: tuple[int, ...]) -> Any:
    return np.fmax.reduce(values, axis=axes, initial=SMALLEST if values.dtype.kind == "i" else -math.inf)


def _minimum(values: Any, axes: tuple[int, ...]) -> Any:
    return np.fmin.reduce(values, axis=axes, initial=LARGEST if values.dtype.kind == "i" else math.inf)


def _largest(values: Any, axes: tuple[int, ...]) -> Any:
    return np.fmax.reduce(values, axis=axes, initial=0)


KINDS = {
    "sum": Kind("a", "+", _sum, 0.0, 0, "sum"),
    "mean": Kind("a", "+", _sum, 0.0, 0, "mean", divides=True),
    "max": Kind("a", "maximum", _maximum, -math.inf, SMALLEST, "max"),
    "min": Kind("a", "minimum", _minimum, math.inf, LARGEST, "min"),
    "amax": Kind("abs(a)", "maximum", _largest, 0.0, 0, "amax"),
    "sumsq": Kind("a * a", "+", _sum, 0.0, 0, "sum"),
}
ATOMIC = {"sum": "add", "mean": "add", "sumsq": "add", "max": "max", "amax": "max"}
"""Kinds that memory can combine atomically, and how."""
