"""Powers: `x ** 3`, `x ** -0.5`, `2 ** x`, `x ** y`.

- A whole exponent that is written as a number is multiplications, by repeated squaring: signs are exact, the error is a
  few roundings; a negative one is 1 divided by that. Integers take no negative one.
- 0.5 and -0.5 are the square root and its reciprocal.
- All else, f32 only, is exp2(exponent * log2(base)), with a relative error of about 2^-23 times that exponent of 2.
  Anything to the power of 0 is 1, and so is 1 to any power; a negative base gives NaN.
"""

from __future__ import annotations

import math
from typing import Any

from ckmlir.dialect.scalars import is_float
from ckmlir.lang.arithmetic import constant
from ckmlir.lang.operators import Operators
from ckmlir.lang.tiles import exp2, log2, rsqrt, sqrt, where
from ckmlir.lang.trace import TracingError, located
from ckmlir.lang.values import Scalar

Number = int | float


@located
def power(base: Any, exponent: Any) -> Any:
    """base ** exponent, one of them traced.

    Raises:
        TracingError: a negative exponent of integers, a run-time exponent of integers, or a base that is not a positive
            number.
    """
    if not _is_traced(exponent):
        return _constant_exponent(base, _number(exponent))
    if not _is_traced(base):
        return _constant_base(_number(base), exponent)
    raised = exp2(exponent * log2(base))
    return _choose((exponent == 0.0) | (base == 1.0), raised)


def _is_traced(value: Any) -> bool:
    return isinstance(value, Operators)


def _number(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if hasattr(value, "item") and not getattr(value, "shape", (1,)):
            return _number(value.item())
        raise TracingError(f"a power takes numbers and traced values, not {value!r}")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _constant_exponent(base: Any, exponent: Number) -> Any:
    if exponent == 0.5:
        return sqrt(base)
    if exponent == -0.5:
        return rsqrt(base)
    if not isinstance(exponent, int):
        return _choose(base == 1.0, exp2(log2(base) * exponent))
    if exponent < 0:
        if not _is_float(base):
            raise TracingError(f"x ** {exponent}: integers take no negative exponent; convert or cast to f32")
        return 1.0 / _whole(base, -exponent)
    return _whole(base, exponent) if exponent else base._apply(lambda value: constant(1, value.type))


def _is_float(value: Any) -> bool:
    return is_float(value.type if isinstance(value, Scalar) else value.element)


def _whole(base: Any, exponent: int) -> Any:
    """A power with an exponent of at least 1."""
    result, square = None, base
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return result


def _constant_base(base: Number, exponent: Any) -> Any:
    if base <= 0 or math.isnan(base):
        raise TracingError(f"{base} ** x: a base that is a number has to be positive")
    return exp2(exponent * math.log2(base)) if base != 2 else exp2(exponent)


def _choose(is_one: Any, raised: Any) -> Any:
    """1 where that is the power, whatever the formula gives."""
    if isinstance(raised, Scalar):
        return is_one.select(1.0, raised)
    return where(is_one, 1.0, raised)
