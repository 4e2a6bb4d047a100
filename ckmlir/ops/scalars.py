"""Scalars as kernels take them, of numbers and of symbols that stand for numbers (`ckmlir.ops.symbolic`).

What an operator computes of a problem with NumPy's types and the standard library's functions is fixed by them to the
problem's values; with these it holds for other sizes too.
"""

from __future__ import annotations

import math
import operator
from typing import Any, cast

import numpy as np


def i32(value: int) -> np.int32:
    """A whole number of 32 bits. Raises OverflowError."""
    return cast(np.int32, _cast(np.int32, value))


def i64(value: int) -> np.int64:
    """A whole number of 64 bits. Raises OverflowError."""
    return cast(np.int64, _cast(np.int64, value))


def f32(value: float) -> np.float32:
    """A number, rounded to single precision."""
    return cast(np.float32, _cast(np.float32, value))


def f64(value: float) -> np.float64:
    """A number of double precision."""
    return cast(np.float64, _cast(np.float64, value))


def index(value: Any) -> int:
    """A whole number in Python's type. Raises TypeError for what is none."""
    if type(value) is int or (_is_symbol(value) and isinstance(value, int)):
        return value
    return operator.index(value)


def gcd(*values: int) -> int:
    """The greatest common divisor."""
    for symbol in values:
        if type(symbol) is not int and _is_symbol(symbol):
            others = (one for one in values if one is not symbol)
            return cast(int, cast(Any, symbol).applied(math.gcd, *others))
    return math.gcd(*values)


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient rounded up."""
    return -(-numerator // denominator)


_PLAIN = (int, float)
"""What nearly all are; to ask whether a class has what it has not takes half a microsecond."""


def _cast(kind: type[Any], value: Any) -> Any:
    return kind(value) if type(value) in _PLAIN or not _is_symbol(value) else value.cast(kind)


def _is_symbol(value: object) -> bool:
    return hasattr(type(value), "cast")  # and not its class, which nobody else loads
