"""How far an expression computed in f32 or f64 may be from its value, and how far after the output's rounding.

Errors are propagated to first order with the arguments moved by their errors: a sum adds them, a product scales each
by the other factor, a function's value at the moved arguments tells how far it goes. Every operation then adds its own
rounding: half an ulp, two for a division, as many as `Function.ulps` for the chip's transcendental instructions,
which also flush denormals (CDNA3 ISA, 7.4), so that each adds the smallest normal number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import DTYPES, find_dtype, numpy_dtype
from ckmlir.ops.precision import F32, Precision, in_f32, order_decides, sum_error
from ckmlir.ops.tensors.expression import Expression, evaluate_exactly, expanded, parse
from ckmlir.ops.tensors.functions import FUNCTIONS
from ckmlir.targets import Target

NEXT_TO_ZERO = 5e-324
"""An error that leaves no trace but where it says that a zero may have either sign."""


class Bounded(NamedTuple):
    """A value and how far what is computed may be from it: infinitely far where nothing is known of it.

    Attributes:
        unrounded: of a product, it and its error before it is rounded: an addition behind it may take it so.
    """

    value: Any
    error: Any
    unrounded: tuple[Any, Any] | None = None


def _bounded(precision: Precision, value: Any, error: Any, rounding: float) -> Bounded:
    """A value with an error before its own rounding; infinities and NaN are exact unless operands are not, and so is
    what is too large by more than its error.
    """
    before, value = value, precision.within(value)
    finite = np.isfinite(value)
    error = np.where(np.isnan(error), np.where(finite, np.inf, 0.0), error)
    rounding *= precision.unit
    rounded = error + np.where(np.isinf(error), 0.0, rounding * (np.where(finite, np.abs(value), 0.0) + error))
    overflows = finite & (np.abs(value) + rounded >= precision.overflow)
    surely = np.isfinite(before) & (np.abs(before) * (1 - rounding) - error >= precision.overflow)
    saved = ~finite & (error > 0) & ~surely  # it may be finite after all
    return Bounded(value, np.where(overflows | saved, np.inf, np.where(surely, 0.0, rounded)))


def _product(factor: Any, error: Any) -> Any:
    """|factor| error, infinite where the error is, and 0 where there is none, or where the product is NaN anyway."""
    product = np.where(error == 0, 0.0, np.abs(factor) * error)
    return np.where(np.isinf(error), np.inf, np.where(np.isnan(product), 0.0, product))


class _Bounds:
    """The domain of values with error bounds."""

    def __init__(self, precision: Precision) -> None:
        self._precision, self._tiny = precision, precision.least_normal

    def number(self, value: float) -> Bounded:
        return Bounded(np.float64(value), abs(self._precision.number(value) - value) if np.isfinite(value) else 0.0)

    def _bounded(self, value: Any, error: Any, rounding: float) -> Bounded:
        """With an operation's own rounding, in units of the last place halved."""
        return _bounded(self._precision, value, error, rounding)

    def binary(self, symbol: str, left: Bounded, right: Bounded) -> Bounded:
        found = self._rounded(symbol, left, right)
        if symbol not in "+-":
            return found
        differs = np.False_
        for fused in (self._rounded(symbol, *operands) for operands in _fused(left, right)):
            differs = differs | ~_same(fused.value, found.value) | (fused.error > 0)
        infinite = _overflowed(left) | _overflowed(right)
        return Bounded(found.value, np.where(infinite & differs, np.inf, found.error))

    def _rounded(self, symbol: str, left: Bounded, right: Bounded) -> Bounded:
        found = self._binary(symbol, left, right)
        sure = _surely_nan(left) | _surely_nan(right) | _stays_infinite(symbol, left, right)
        sure = sure | (np.isnan(found.value) & _exact(left) & _exact(right)) | _of_zeros(symbol, left, right)
        return found._replace(error=np.where(sure, 0.0, found.error))

    def _binary(self, symbol: str, left: Bounded, right: Bounded) -> Bounded:
        (a, ea, _), (b, eb, _) = left, right
        if symbol == "/":
            value = np.true_divide(a, b)
            room = np.abs(b) - eb
            moved = (ea + _product(self._precision.within(value), eb)) / np.where(room > 0, room, 1)
            error = np.where(room > 0, moved, np.where((ea > 0) | (eb > 0), np.inf, 0.0))
            return self._bounded(value, error + self._tiny, 2)
        if symbol == "*":
            value = np.multiply(a, b)
            error = _product(a, eb) + _product(b, ea) + _product(ea, eb) + self._tiny
            return self._bounded(value, error, 1)._replace(unrounded=(value, error))
        value = np.add(a, b) if symbol == "+" else np.subtract(a, b)
        return self._bounded(value, ea + eb, 1)

    def compare(self, symbol: str, left: Bounded, right: Bounded) -> Bounded:
        """The condition; its "error" is whether it could come out the other way."""
        expression = evaluate_exactly(_comparison(symbol), {"a": left.value, "b": right.value})
        room = left.error + right.error
        known = _surely_nan(left) | _surely_nan(right) | (np.abs(left.value - right.value) > room)
        return Bounded(expression, (room > 0) & ~known)

    def negate(self, value: Bounded) -> Bounded:
        unrounded = value.unrounded and (np.negative(value.unrounded[0]), value.unrounded[1])
        return Bounded(np.negative(value.value), value.error, unrounded)

    def call(self, name: str, arguments: Sequence[Bounded]) -> Bounded:
        function = FUNCTIONS[name]
        if name == "where":
            condition, yes, no = arguments
            value = np.where(condition.value == 1, yes.value, no.value)
            other = np.abs(np.subtract(yes.value, no.value)) + np.maximum(yes.error, no.error)
            chosen = np.where(condition.value == 1, yes.error, no.error)
            return Bounded(value, np.where(condition.error, np.where(np.isnan(other), np.inf, other), chosen))
        if function.text is not None:
            found = expanded(name, self, arguments)
            value = function.exact(*(argument.value for argument in arguments))
            # Where a part of the text overflows, such as an exponential that divides, the function may be a denormal.
            error = found.error + np.where(_same(found.value, value), 0.0, self._tiny)
            # A NaN of the text's own, where the function has a value, is not a rounding error: the value is promised.
            error = np.where(_surely_nan(found), 0.0, error)
            return self._bounded(value, error + function.error * 1.01, 0.0)
        exact = function.exact(*(argument.value for argument in arguments))
        value, within = self._precision.within(exact), self._precision.within
        moved = [
            within(function.exact(*(argument.value + sign * argument.error for argument in arguments)))
            for sign in (-1, 1)
        ]
        error = np.maximum(*(np.where(_same(end, value), 0.0, np.abs(end - value)) for end in moved))
        if len(arguments) > 1:  # maximum and minimum: no further than the argument that moves more
            error = np.maximum(*(argument.error for argument in arguments))
            error = np.where(_zeros_of_both_signs(*arguments), np.maximum(error, NEXT_TO_ZERO), error)
        unknown = np.isnan(error)  # a number on one side, none on the other
        for argument in arguments:
            # no number, but it may be one, at which the function has another value
            unknown = unknown | (~np.isfinite(argument.value) & np.isinf(argument.error))
        error = np.where(unknown, np.inf, error)
        if function.ulps:  # infinity may be the largest number only where it is near that
            error = error + np.where(np.abs(exact) <= 2 * self._precision.overflow, self._tiny, 0.0)
        return self._bounded(value, error, 2 * function.ulps)


def _fused(left: Bounded, right: Bounded) -> list[tuple[Bounded, Bounded]]:
    """The operands of an addition with one of them, where it is a product, as it is before it is rounded."""
    found = []
    if left.unrounded is not None:
        found.append((Bounded(*left.unrounded), right))
    if right.unrounded is not None:
        found.append((left, Bounded(*right.unrounded)))
    return found


def _overflowed(one: Bounded) -> Any:
    """Where it is a product of numbers, and infinite."""
    return np.isinf(one.value) & np.isfinite(one.unrounded[0]) if one.unrounded is not None else np.False_


def _surely_nan(one: Bounded) -> Any:
    """Where it is NaN whatever rounding does."""
    return np.isnan(one.value) & _exact(one)


def _stays_infinite(symbol: str, left: Bounded, right: Bounded) -> Any:
    """Where an infinite operand makes the result infinite whatever rounding does to the other, which is finite."""
    infinite = [np.isinf(one.value) & _exact(one) for one in (left, right)]
    known = [np.isfinite(one.value) & np.isfinite(one.error) for one in (left, right)]
    if symbol in "*/":  # by what is not zero
        known = [here & (np.abs(one.value) > one.error) for here, one in zip(known, (left, right), strict=True)]
    if symbol == "*":
        known = [here | one for here, one in zip(known, infinite, strict=True)]
    return (infinite[0] & known[1]) | (infinite[1] & known[0] if symbol != "/" else False)


def _exact(one: Bounded) -> Any:
    return one.error == 0


def _of_zeros(symbol: str, left: Bounded, right: Bounded) -> Any:
    """Where a product or quotient surely is zero, or infinite since a zero divides."""
    if symbol in "+-":
        return np.False_
    finite = [np.isfinite(one.value) & np.isfinite(one.error) for one in (left, right)]
    zero = [_exact(one) & (one.value == 0) for one in (left, right)]
    if symbol == "*":
        return (zero[0] & finite[1]) | (zero[1] & finite[0])
    not_zero = [np.isfinite(one.error) & (np.abs(one.value) > one.error) for one in (left, right)]
    by_infinity = finite[0] & _exact(right) & np.isinf(right.value)
    return (zero[0] & not_zero[1]) | (not_zero[0] & zero[1]) | by_infinity


def _zeros_of_both_signs(left: Bounded, right: Bounded) -> Any:
    """Where it is open which zero is the larger one, so that nothing is known of what it divides."""
    return (left.value == 0) & (right.value == 0) & (np.signbit(left.value) != np.signbit(right.value))


def _same(one: Any, other: Any) -> Any:
    return (one == other) | (np.isnan(one) & np.isnan(other))


@cache
def _comparison(symbol: str) -> Expression:
    return parse(f"where(a {symbol} b, 1, 0)", ("a", "b"))


def expression_error(expression: Expression, variables: Mapping[str, Array]) -> Array:
    """How far the expression, computed in f32 from exact variables, may be from its value, element by element; infinite
    where rounding decides what it is: a comparison of what is nearly equal, a division by what may be zero, an
    overflow.
    """
    with np.errstate(all="ignore"):
        bare = expression.text in variables  # converted as it is, by no way through f32
        given = {name: Bounded(value, np.where(bare, 0.0, _f32_error(value))) for name, value in variables.items()}
        error = np.asarray(expression.evaluate(_Bounds(F32), given).error, np.float64)
    return error


def _f32_error(values: Array) -> Array:
    """How far f32 is from values: 0 but for large integers."""
    error = np.abs(values.astype(np.float32).astype(np.float64) - values)
    return np.nan_to_num(error, posinf=0)


def bounded_error(expression: Expression, variables: Mapping[str, Bounded], precision: Precision = F32) -> Array:
    """The same from variables that have errors of their own, in f32 or f64."""
    with np.errstate(all="ignore"):
        return np.asarray(expression.evaluate(_Bounds(precision), variables).error, np.float64)


def bounded(text: str, variables: Mapping[str, Bounded]) -> Bounded:
    """What an expression comes to in f32, and that error."""
    with np.errstate(all="ignore"):
        return parse(text, tuple(variables)).evaluate(_Bounds(F32), variables)


def bounded_sum(terms: Bounded, axis: int, additions: int) -> Bounded:
    """Sums of terms along an axis in f32, by so many additions one behind the other; nothing is known of those that
    their order may make too large. NaN and infinities are what they are in any order. But an addition that takes a
    product unrounded may find it finite where f32 would not hold it: beside an infinity of the other sign the sum is
    then infinite, and not NaN."""
    value = np.asarray(terms.value, np.float64)
    error = np.broadcast_to(terms.error, value.shape)
    with np.errstate(all="ignore"):
        total = in_f32(value.sum(axis=axis))
        sizes = np.where(np.isfinite(value), np.abs(value), 0.0).sum(axis=axis)
        off = error.sum(axis=axis) + sum_error(additions, sizes)
    off = np.where(order_decides(value, axis), np.inf, off)
    off = np.where(np.isfinite(total) | np.isinf(off), off, 0.0)
    if terms.unrounded is not None:
        lacked = (np.isinf(value) & np.isfinite(terms.unrounded[0])).any(axis=axis)
        off = np.where(lacked & np.isnan(total), np.inf, off)
    surely = (np.isnan(value) & (error == 0)).any(axis=axis)
    return Bounded(total, np.where(surely, 0.0, off))


def saturated(value: Array, dtype: str, target: Target) -> Array:
    """What a conversion to `dtype` makes of numbers that it cannot hold: i8, i32 and 8-bit floats saturate.

    NaN becomes 0 in integers.
    """
    if find_dtype(dtype).is_integer:
        limits = np.iinfo(numpy_dtype(dtype, target))
        whole = value if value.dtype.kind == "i" else np.rint(np.where(np.isnan(value), 0.0, value))
        return np.clip(whole, limits.min, limits.max)
    if find_dtype(dtype).bytes == 1:
        most = float(_limits(numpy_dtype(dtype, target)).max)
        return np.clip(value, -most, most)
    return value


def underflow(dtype: str, target: Target) -> float:
    """Half the smallest positive number of a dtype on a chip; 0 for integers."""
    if find_dtype(dtype).is_integer:
        return 0.0
    return float(_limits(numpy_dtype(dtype, target)).smallest_subnormal) / 2


def output_tolerance(error: Array, dtype: str, what: str, target: Target) -> Tolerance:
    """The tolerance of an output that holds a value with this error, rounded to `dtype`; where the error is infinite
    nothing is promised.
    """
    found, free = DTYPES[dtype], np.isinf(error)
    if found.is_integer:
        steps = np.where(error > 0, np.ceil(error), 0.0)
        return Tolerance(0.0, steps, f"{what}, then rounded to a whole number", free)
    exact = not np.any(error)
    rounding = f"{what}, then half an ulp of {dtype}"
    atol = np.where(free, 0.0, error) * (1 + 2 * found.unit_roundoff) + underflow(dtype, target)
    return Tolerance(found.unit_roundoff, atol, f"half an ulp of {dtype}" if exact else rounding, free)


def _limits(dtype: np.dtype[Any]) -> Any:
    from ml_dtypes import finfo  # has no types

    return finfo(dtype)  # type: ignore[no-untyped-call]
