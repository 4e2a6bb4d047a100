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

from ckmlir.dialect.build import value
from ckmlir.dialect.scalars import is_float
from ckmlir.lang.arithmetic import Number, constant, emit_binary, emit_compare, emit_float
from ckmlir.lang.trace import TracingError
from ckmlir.mlir import ir


def written_number(operand: Any) -> Number:
    """Base or exponent that is a number; a whole one as an integer, whatever its type.

    Raises:
        TracingError: it is none.
    """
    if isinstance(operand, bool) or not isinstance(operand, (int, float)):
        if hasattr(operand, "item") and not getattr(operand, "shape", (1,)):
            return written_number(operand.item())
        raise TracingError(f"a power takes numbers and traced values, not {operand!r}")
    return int(operand) if isinstance(operand, float) and operand.is_integer() else operand


def power(base: ir.Value, exponent: ir.Value) -> ir.Value:
    """base ** exponent of two scalars.

    Raises:
        TracingError: their types differ, or are not f32.
    """
    raised = _exp2(emit_binary("*", exponent, _log2(base)))
    is_one = emit_binary(
        "|",
        emit_compare("==", exponent, constant(0.0, exponent.type)),
        emit_compare("==", base, constant(1.0, base.type)),
    )
    return _one_where(is_one, raised)


def power_of_number(base: Number, exponent: ir.Value) -> ir.Value:
    """base ** exponent, the base a number.

    Raises:
        TracingError: the base is not positive, or the exponent not f32.
    """
    if base <= 0 or math.isnan(base):
        raise TracingError(f"{base} ** x: a base that is a number has to be positive")
    if base == 2:
        return _exp2(exponent)
    return _exp2(emit_binary("*", exponent, constant(math.log2(base), exponent.type)))


def power_by_number(base: ir.Value, exponent: Number) -> ir.Value:
    """base ** exponent, the exponent a number.

    Raises:
        TracingError: a negative exponent of an integer; one that is not whole, of what is not f32.
    """
    if exponent == 0.5:
        return emit_float("sqrt", "math.sqrt", base)
    if exponent == -0.5:
        return emit_float("rsqrt", "math.rsqrt", base)
    if not isinstance(exponent, int):
        raised = _exp2(emit_binary("*", _log2(base), constant(exponent, base.type)))
        return _one_where(emit_compare("==", base, constant(1.0, base.type)), raised)
    if exponent < 0:
        if not is_float(base.type):
            raise TracingError(f"x ** {exponent}: integers take no negative exponent; convert or cast to f32")
        return emit_binary("/", constant(1.0, base.type), _whole_power(base, -exponent))
    return _whole_power(base, exponent) if exponent else constant(1, base.type)


def _whole_power(base: ir.Value, exponent: int) -> ir.Value:
    """A power with an exponent of at least 1."""
    result, square = None, base
    while True:
        if exponent & 1:
            result = square if result is None else emit_binary("*", result, square)
        exponent >>= 1
        if not exponent:
            assert result is not None  # the highest bit of the exponent is set
            return result
        square = emit_binary("*", square, square)


def _one_where(is_one: ir.Value, raised: ir.Value) -> ir.Value:
    """1 where that is the power, whatever the formula gives."""
    return value("arith.select", raised.type, [is_one, constant(1.0, raised.type), raised])


def _exp2(operand: ir.Value) -> ir.Value:
    return emit_float("exp2", "math.exp2", operand)


def _log2(operand: ir.Value) -> ir.Value:
    return emit_float("log2", "math.log2", operand)
