"""Expressions over tiles: the domain in which kernels evaluate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.lang import Tile, ceil, exp2, floor, log2, round_even, rsqrt, sqrt, truncate, where
from ckmlir.ops.tensors.expression import Expression, expanded
from ckmlir.ops.tensors.functions import FUNCTIONS

_PRIMITIVES: dict[str, Any] = {
    "sqrt": sqrt, "rsqrt": rsqrt, "exp2": exp2, "log2": log2, "floor": floor, "ceil": ceil, "trunc": truncate,
    "round": round_even,
}  # fmt: skip


class _Tiles:
    """Tiles and numbers; what has no tile in it stays a number until it meets one."""

    def __init__(self, integer: bool) -> None:
        self._integer = integer

    def number(self, value: float) -> Any:
        return int(value) if self._integer else float(value)

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        if symbol == "+":
            return left + right
        if symbol == "-":
            return left - right
        return left * right if symbol == "*" else left / right

    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        if not isinstance(left, Tile):
            if not isinstance(right, Tile):
                raise ValueError("a comparison of two numbers; write what it gives instead")
            swapped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            return self.compare(swapped.get(symbol, symbol), right, left)
        comparisons: dict[str, Any] = {
            "<": lambda: left < right, "<=": lambda: left <= right, ">": lambda: left > right,
            ">=": lambda: left >= right, "==": lambda: left.equals(right), "!=": lambda: left.differs(right),
        }  # fmt: skip
        return comparisons[symbol]()

    def negate(self, value: Any) -> Any:
        return -value

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        if not any(isinstance(argument, Tile) for argument in arguments):
            return float(FUNCTIONS[name].exact(*arguments)) if name != "where" else arguments[2 - bool(arguments[0])]
        if FUNCTIONS[name].text is not None:
            return expanded(name, self, arguments)
        if name == "where":
            return _where(*arguments)
        if name in ("maximum", "minimum"):
            first, second = arguments if isinstance(arguments[0], Tile) else reversed(arguments)
            return getattr(first, name)(second)
        return _PRIMITIVES[name](*arguments)


def _where(condition: Tile, yes: Any, no: Any) -> Any:
    """A choice of which at least one side is a tile, made of the condition's shape where neither is."""
    if not isinstance(yes, Tile) and not isinstance(no, Tile):
        from ckmlir.lang import splat_like

        name = "f32" if isinstance(yes, float) else "i32"
        yes = splat_like(condition, yes, name)
    return where(condition, yes, no)


def evaluate_tiles(expression: Expression, tiles: Mapping[str, Tile], *, integer: bool) -> Any:
    """The expression on tiles of f32, or of i32 where `integer`; a number where it has no variable."""
    return expression.evaluate(_Tiles(integer), tiles)
