"""Element-wise expressions: text such as `gelu(a * 0.5 + b)`, read into a tree that has nothing but arithmetic in it.

An expression has variables, numbers, + - * /, comparisons as the first argument of `where`, and the functions of
`functions.py`. It is never run as Python. A Python function of the variables gives the same: it is called once with
`Expression` objects and leaves its text.

What an expression means is said by a `Domain`: arrays (`evaluate_exactly`), bounds of errors (`rounding.py`) or tiles
(`tiles.py`); all of them go through one `evaluate` (`expression_tree.py`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from ckmlir.ops.precision import F32, Precision
from ckmlir.ops.request import RequestError, show
from ckmlir.ops.tensors.expression_tree import (
    CONSTANTS,
    Domain,
    called,
    check_length,
    check_tree,
    evaluate,
    names,
    number_of,
    parts_first,
    text_of,
)
from ckmlir.ops.tensors.functions import FUNCTIONS

T = TypeVar("T")
PARAMETERS = ("x", "y", "z")


class Expression(Struct, frozen=True):
    """A checked expression: its tree, and the canonical text that reads as the same tree."""

    tree: ast.expr

    @property
    def text(self) -> str:
        return text_of(self.tree)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its variables, sorted."""
        return tuple(sorted(names(self.tree) - set(CONSTANTS)))

    def evaluate(self, domain: Domain[T], variables: Mapping[str, T]) -> T:
        """Its value where the variables have these."""
        return evaluate(self.tree, domain, variables)

    # -- Python's operators write larger expressions

    def _with(self, operator: ast.operator, other: object, *, swapped: bool = False) -> Expression:
        left, right = self.tree, _tree_of(other)
        return Expression(ast.BinOp(right, operator, left) if swapped else ast.BinOp(left, operator, right))

    def __add__(self, other: object) -> Expression:
        return self._with(ast.Add(), other)

    def __radd__(self, other: object) -> Expression:
        return self._with(ast.Add(), other, swapped=True)

    def __sub__(self, other: object) -> Expression:
        return self._with(ast.Sub(), other)

    def __rsub__(self, other: object) -> Expression:
        return self._with(ast.Sub(), other, swapped=True)

    def __mul__(self, other: object) -> Expression:
        return self._with(ast.Mult(), other)

    def __rmul__(self, other: object) -> Expression:
        return self._with(ast.Mult(), other, swapped=True)

    def __truediv__(self, other: object) -> Expression:
        return self._with(ast.Div(), other)

    def __rtruediv__(self, other: object) -> Expression:
        return self._with(ast.Div(), other, swapped=True)

    def __neg__(self) -> Expression:
        return Expression(ast.UnaryOp(ast.USub(), self.tree))

    def __lt__(self, other: object) -> Expression:
        return self._compare(ast.Lt(), other)

    def __le__(self, other: object) -> Expression:
        return self._compare(ast.LtE(), other)

    def __gt__(self, other: object) -> Expression:
        return self._compare(ast.Gt(), other)

    def __ge__(self, other: object) -> Expression:
        return self._compare(ast.GtE(), other)

    def _compare(self, operator: ast.cmpop, other: object) -> Expression:
        return Expression(ast.Compare(self.tree, [operator], [_tree_of(other)]))

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth; use call('where', condition, yes, no)")


def call(name: str, *arguments: object) -> Expression:
    """A function of the table applied to expressions and numbers."""
    return Expression(ast.Call(ast.Name(name, ast.Load()), [_tree_of(argument) for argument in arguments], []))


def read_expression(source: object, variables: Sequence[str]) -> Expression:
    """The expression that a text or a Python function of the variables gives.

    Raises RequestError for anything but an expression over these variables, in words.
    """
    if isinstance(source, Expression):
        return parse(source.text, tuple(variables))
    if callable(source):
        names = source.__code__.co_varnames[: source.__code__.co_argcount] if hasattr(source, "__code__") else variables
        made = source(*(Expression(ast.Name(name, ast.Load())) for name in list(variables)[: len(names)]))
        return parse(text_of(_tree_of(made)), tuple(variables))
    if not isinstance(source, str):
        raise RequestError(f"{show(source)}: expected an expression such as relu(a * 2 + b), or a function")
    return parse(source, tuple(variables))


@lru_cache(maxsize=512)
def parse(text: str, variables: tuple[str, ...]) -> Expression:
    """The expression that a text writes. Raises RequestError naming what it does not understand."""
    text = text.strip()
    check_length(text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if not isinstance(error, SyntaxError | ValueError) or "too many nested" in str(error):
            raise RequestError(f"{show(text)}: nested too deeply; use fewer parentheses and signs") from None
        raise RequestError(f"{show(text)}: not an expression such as relu(a * 2 + b)") from None
    check_tree(tree, text, variables)
    return Expression(tree)


def check_integers(expression: Expression) -> None:
    """Raise RequestError for what integers cannot compute: fractions, divisions and most functions."""
    text, right = expression.text, "give a floating-point output type"
    for node in parts_first(expression.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            raise RequestError(f"{text}: integers are not divided; {right}")
        if isinstance(node, ast.Constant) and not number_of(node).is_integer():
            raise RequestError(f"{text}: {number_of(node)} is not an integer; {right}")
        if isinstance(node, ast.Constant) and number_of(node) >= 2**31:
            raise RequestError(f"{text}: {number_of(node):.0f} is not a 32-bit integer; {right}")
        if isinstance(node, ast.Name) and node.id in CONSTANTS:
            raise RequestError(f"{text}: {node.id} is not an integer; {right}")
        if isinstance(node, ast.Call) and not FUNCTIONS[called(node)].integer:
            raise RequestError(f"{text}: {called(node)} has no meaning for integers")


def check_f64(expression: Expression) -> None:
    """Raise RequestError for functions that chips compute in f32 only."""
    text = expression.text
    for node in parts_first(expression.tree):
        if isinstance(node, ast.Call) and not _exact_in_f64(called(node)):
            raise RequestError(
                f"{text}: {called(node)} is computed in f32 only; of f64 expected + - * /, comparisons, maximum, "
                "minimum, rounding, and what is made of them, such as relu and clamp"
            )


@lru_cache
def _exact_in_f64(name: str) -> bool:
    """Whether a function is arithmetic alone, or a text of such functions that is not an approximation."""
    function = FUNCTIONS[name]
    if function.text is None or function.error:
        return not (function.ulps or function.error)
    inner = parse(function.text, PARAMETERS[: function.arity])
    return all(_exact_in_f64(called(node)) for node in parts_first(inner.tree) if isinstance(node, ast.Call))


def evaluate_exactly(
    expression: Expression, variables: Mapping[str, Any], *, integer: bool = False, precision: Precision = F32
) -> Any:
    """Its value on float64 arrays, or on int32 arrays where `integer`, modulo 2^32; `precision` says what is infinite.
    """
    with np.errstate(all="ignore"):
        return expression.evaluate(Exactly(np.int32 if integer else np.float64, precision), variables)


class Exactly:
    """The domain of arrays as NumPy computes them, with numbers of the type `scalar`.

    Floating-point numbers are those of float64, but infinite where the precision has none so large.
    """

    def __init__(self, scalar: Any, precision: Precision = F32) -> None:
        self._scalar = scalar
        self._in_range = precision.within if scalar is np.float64 else np.asarray

    def number(self, value: float) -> Any:
        return self._scalar(value)

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide
        }  # fmt: skip
        return self._in_range(functions[symbol](left, right))

    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
            "!=": np.not_equal,
        }  # fmt: skip
        return functions[symbol](left, right)

    def negate(self, value: Any) -> Any:
        return np.negative(value)

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        return self._in_range(FUNCTIONS[name].exact(*arguments))


def expanded(name: str, domain: Domain[T], arguments: Sequence[T]) -> T:
    """A function that is a text, evaluated in a domain."""
    text = FUNCTIONS[name].text
    assert text is not None
    parameters = PARAMETERS[: len(arguments)]
    return parse(text, parameters).evaluate(domain, dict(zip(parameters, arguments, strict=True)))


def _tree_of(item: object) -> ast.expr:
    if isinstance(item, Expression):
        return item.tree
    if isinstance(item, (int, float)) and not isinstance(item, bool) and math.isfinite(item):
        return ast.Constant(item) if item >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-item))
    raise RequestError(f"{show(item)} is not a part of an expression; expected an expression or a number")
