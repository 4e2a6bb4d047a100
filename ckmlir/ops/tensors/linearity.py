"""Whether an expression of sums is the sum of the expression of their parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from ckmlir.ops.tensors.expression import Expression


class _Degree(Enum):
    """How a value depends on the sums: not at all, proportionally, or in another way."""

    NONE, ONE, OTHER = range(3)


def is_linear(expression: Expression, sums: Collection[str]) -> bool:
    """Whether f(x + y) = f(x) + f(y) for the variables `sums`, as far as the form of the expression shows: they are
    added to each other, and multiplied and divided by what does not depend on them. A term without them is none of
    that: it would be added once for each part.
    """
    variables = {name: _Degree.ONE if name in sums else _Degree.NONE for name in expression.variables}
    return expression.evaluate(_Degrees(), variables) is _Degree.ONE


class _Degrees:
    """The domain of degrees."""

    def number(self, value: float) -> _Degree:
        return _Degree.NONE

    def binary(self, symbol: str, left: _Degree, right: _Degree) -> _Degree:
        if symbol in "+-":
            return left if left is right else _Degree.OTHER
        if right is _Degree.NONE:
            return left
        return right if symbol == "*" and left is _Degree.NONE else _Degree.OTHER

    def compare(self, symbol: str, left: _Degree, right: _Degree) -> _Degree:
        return _Degree.NONE if left is right is _Degree.NONE else _Degree.OTHER

    def negate(self, value: _Degree) -> _Degree:
        return value

    def call(self, name: str, arguments: Sequence[_Degree]) -> _Degree:
        if all(one is _Degree.NONE for one in arguments):
            return _Degree.NONE
        condition, *values = arguments
        chosen = name == "where" and condition is _Degree.NONE and all(one is _Degree.ONE for one in values)
        return _Degree.ONE if chosen else _Degree.OTHER
