"""Expressions over tiles: the domain in which kernels evaluate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.lang import Tile, ceil, exp2, floor, log2, round_even, rsqrt, splat_like, sqrt, truncate, where
from ckmlir.ops.precision import PRECISIONS
from ckmlir.ops.tensors.expression import Exactly, Expression, expanded
from ckmlir.ops.tensors.functions import FUNCTIONS

_PRIMITIVES: dict[str, Any] = {
    "sqrt": sqrt, "rsqrt": rsqrt, "exp2": exp2, "log2": log2, "floor": floor, "ceil": ceil, "trunc": truncate,
    "round": round_even,
}  # fmt: skip


class _Tiles:
    """Tiles and numbers; what has no tile in it stays a number until it meets one."""

    def __init__(self, element: str) -> None:
        self._element = element
        self._precision = PRECISIONS.get(element)
        exact = Exactly(np.int32) if self._precision is None else Exactly(np.float64, self._precision)
        self._exactly, self._python = exact, float if self._precision else int

    def number(self, value: float) -> Any:
        return self._python(value)

    def _folded(self, value: Any) -> Any:
        """A number made of numbers."""
        return bool(value) if isinstance(value, np.bool_) else self._python(value)

    def _meeting(self, value: Any) -> Any:
        """A number as one of a tile's elements: infinite where it is too large for that."""
        if isinstance(value, Tile) or self._precision is None:
            return value
        return self._precision.number(value)

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        if not isinstance(left, Tile) and not isinstance(right, Tile):
            return self._folded(self._exactly.binary(symbol, self._exactly.number(left), self._exactly.number(right)))
        left, right = self._meeting(left), self._meeting(right)
        if symbol == "+":
            return left + right
        if symbol == "-":
            return left - right
        return left * right if symbol == "*" else left / right

    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        if not isinstance(left, Tile):
            if not isinstance(right, Tile):
                return bool(self._exactly.compare(symbol, left, right))
            swapped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            return self.compare(swapped.get(symbol, symbol), right, left)
        right = self._meeting(right)
        comparisons: dict[str, Any] = {
            "<": lambda: left < right, "<=": lambda: left <= right, ">": lambda: left > right,
            ">=": lambda: left >= right, "==": lambda: left.equals(right), "!=": lambda: left.differs(right),
        }  # fmt: skip
        return comparisons[symbol]()

    def negate(self, value: Any) -> Any:
        return -value if isinstance(value, Tile) else self._folded(-self._exactly.number(value))

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        if name == "where" and not isinstance(arguments[0], Tile):
            return arguments[1] if arguments[0] else arguments[2]
        if not any(isinstance(argument, Tile) for argument in arguments):
            return self._folded(self._exactly.call(name, [self._exactly.number(argument) for argument in arguments]))
        if FUNCTIONS[name].text is not None:
            return expanded(name, self, arguments)
        arguments = [self._meeting(argument) for argument in arguments]
        if name == "where":
            return _where(self._element, *arguments)
        if name in ("maximum", "minimum"):
            first, second = arguments if isinstance(arguments[0], Tile) else reversed(arguments)
            return getattr(first, name)(second)
        return _PRIMITIVES[name](*arguments)


def _where(element: str, condition: Tile, yes: Any, no: Any) -> Any:
    """A choice of which at least one side is a tile, made of the condition's shape where neither is."""
    if not isinstance(yes, Tile) and not isinstance(no, Tile):
        yes = splat_like(condition, yes, element)
    return where(condition, yes, no)


def evaluate_tiles(expression: Expression, tiles: Mapping[str, Tile], element: str, like: Tile) -> Tile:
    """The expression on tiles of f32, f64 or i32, as `element` says.

    A number is a tile of that type that lies like another: what makes the output of it rounds and saturates as it does
    what comes from arrays.
    """
    with np.errstate(all="ignore"):
        found = expression.evaluate(_Tiles(element), tiles)
    return found if isinstance(found, Tile) else splat_like(like, found, element)
