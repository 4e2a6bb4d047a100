"""Lengths, strides and amounts that may be known only at run time.

A `Size` is an `int`, a `Symbol` (`?0`, the 0-th run-time value bound to a view; `?1%8` is known to be a multiple of
8) or an `Expression` over them, e.g. the padded length `(((?0 + 127) // 128) * 128)`. A size is evaluated by
`resolve`, which uses nothing but Python's operators: the same size gives an int, a NumPy array or an IR value, as its
symbols are bound.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from math import gcd
from typing import Any

from msgspec import Struct

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


class Symbol(Struct, frozen=True):
    """The `index`-th run-time value bound to a view, known to be a multiple of `multiple`. Written `?0`, `?1%8`."""

    index: int
    multiple: int = 1

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ValueError(f"a run-time value's number must not be negative: {self.index}")
        if self.multiple < 1:
            raise ValueError(f"?{self.index} cannot be a multiple of {self.multiple}; the multiple is at least 1")

    def __str__(self) -> str:
        return f"?{self.index}" if self.multiple == 1 else f"?{self.index}%{self.multiple}"


class Expression(Struct, frozen=True):
    """`left operator right` over sizes; made by `combine`, which folds what is known."""

    operator: str
    left: Size
    right: Size

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


Size = int | Symbol | Expression


def combine(left: Size, operation: str, right: Size) -> Size:
    """The size `left operation right`, as an int when both are, and without neutral elements."""
    if isinstance(left, int) and isinstance(right, int):
        return int(OPERATORS[operation](left, right))
    if (operation in "+-" and right == 0) or (operation in ("*", "//") and right == 1):
        return left
    if (operation == "+" and left == 0) or (operation == "*" and left == 1):
        return right
    if operation == "*" and (left == 0 or right == 0):
        return 0
    return Expression(operation, left, right)


def total(sizes: Iterable[Size]) -> Size:
    """The sum of sizes."""
    result: Size = 0
    for size in sizes:
        result = combine(result, "+", size)
    return result


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes."""
    result: Size = 1
    for size in sizes:
        result = combine(result, "*", size)
    return result


def round_up(size: Size, multiple: int) -> Size:
    """The smallest multiple of `multiple` that is not below `size`."""
    if divisor(size) % multiple == 0:
        return size
    return combine(combine(combine(size, "+", multiple - 1), "//", multiple), "*", multiple)


def resolve(size: Size, symbols: Sequence[Any]) -> Any:
    """The value of `size` with its symbols bound to `symbols`: an int, an array or an IR value.

    Raises:
        ValueError: the size needs a run-time value that is not given.
    """
    if isinstance(size, int):
        return size
    if isinstance(size, Symbol):
        if size.index >= len(symbols):
            raise ValueError(f"the run-time value ?{size.index} is needed, but only {len(symbols)} are given")
        return symbols[size.index]
    return OPERATORS[size.operator](resolve(size.left, symbols), resolve(size.right, symbols))


def divisor(size: Size) -> int:
    """The largest number known to divide `size` (0 divides only the constant 0)."""
    if isinstance(size, int):
        return abs(size)
    if isinstance(size, Symbol):
        return size.multiple
    left, right = divisor(size.left), divisor(size.right)
    if size.operator == "*":
        return left * right
    if size.operator == "//":
        return left // right if isinstance(size.right, int) and right and left % right == 0 else 1
    return gcd(left, right)


def symbols_of(size: Size) -> frozenset[int]:
    """The numbers of the run-time values in `size`."""
    if isinstance(size, int):
        return frozenset()
    if isinstance(size, Symbol):
        return frozenset((size.index,))
    return symbols_of(size.left) | symbols_of(size.right)


_TOKEN = re.compile(r"\s*(?:(?P<symbol>\?\d+(?:%\d+)?)|(?P<int>-?\d+)|(?P<open>\()|(?P<close>\))|(?P<op>//|[-+*%]))")


def parse_size(text: str) -> Size:
    """The size that `str` wrote as `text`.

    Raises:
        ValueError: `text` is not `12`, `?0`, `?1%8` or an expression in parentheses such as `(?0 + 1)`.
    """
    size, end = _parse_term(text, 0)
    if text[end:].strip():
        raise ValueError(f"'{text.strip()}': nothing may follow '{text[:end].strip()}'")
    return size


def _parse_term(text: str, position: int) -> tuple[Size, int]:
    match = _TOKEN.match(text, position)
    if match is None or not (match["symbol"] or match["int"] or match["open"]):
        raise ValueError(f"'{text.strip()}' is not a size; write 12, ?0, ?1%8 or (?0 + 1)")
    if match["symbol"]:
        index, _, multiple = match["symbol"][1:].partition("%")
        return Symbol(int(index), int(multiple or 1)), match.end()
    if match["int"]:
        return int(match["int"]), match.end()
    left, position = _parse_term(text, match.end())
    operation = _TOKEN.match(text, position)
    if operation is None or not operation["op"]:
        raise ValueError(f"'{text.strip()}': an operator (+ - * // %) must follow '{text[:position].strip()}'")
    right, position = _parse_term(text, operation.end())
    close = _TOKEN.match(text, position)
    if close is None or not close["close"]:
        raise ValueError(f"'{text.strip()}': ')' is missing after '{text[:position].strip()}'")
    return combine(left, operation["op"], right), close.end()
