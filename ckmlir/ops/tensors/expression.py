"""Element-wise expressions: text such as `gelu(a * 0.5 + b)`, read into a tree that has nothing but arithmetic in it.

An expression has variables, numbers, + - * /, comparisons as the first argument of `where`, and the functions of
`functions.py`. It is never run as Python. A Python function of the variables gives the same: it is called once with
`Expression` objects and leaves its text.

What an expression means is said by a `Domain`: arrays (`evaluate_exactly`), bounds of errors (`rounding.py`) or tiles
(`tiles.py`); all of them go through one `evaluate`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np

from ckmlir.errors import suggest
from ckmlir.ops.request import RequestError, show
from ckmlir.ops.tensors.functions import FUNCTIONS

T = TypeVar("T")
CONSTANTS = {"inf": math.inf, "pi": math.pi}
LONGEST = 2000
"""Characters of an expression; deeper nesting than this allows would exhaust Python's own stack."""
BINARY: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
PARAMETERS = ("x", "y", "z")


class Domain(Protocol[T]):
    """What the parts of an expression are worth."""

    def number(self, value: float) -> T:
        """A constant."""

    def binary(self, symbol: str, left: T, right: T) -> T:
        """One of + - * /."""

    def compare(self, symbol: str, left: T, right: T) -> T:
        """A condition, for the first argument of `where`."""

    def negate(self, value: T) -> T:
        """The negative."""

    def call(self, name: str, arguments: Sequence[T]) -> T:
        """A function of `functions.py`."""


@dataclass(frozen=True)
class Expression:
    """A checked expression: its tree, and the canonical text that reads as the same tree."""

    tree: ast.expr

    @property
    def text(self) -> str:
        return ast.unparse(self.tree)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its variables, sorted."""
        return tuple(sorted({node.id for node in _names(self.tree)} - set(CONSTANTS)))

    def evaluate(self, domain: Domain[T], variables: Mapping[str, T]) -> T:
        """Its value where the variables have these."""
        return _evaluate(self.tree, domain, variables)

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
        return parse(ast.unparse(_tree_of(made)), tuple(variables))
    if not isinstance(source, str):
        raise RequestError(f"{show(source)}: expected an expression such as relu(a * 2 + b), or a function")
    return parse(source, tuple(variables))


@lru_cache(maxsize=512)
def parse(text: str, variables: tuple[str, ...]) -> Expression:
    """The expression that a text writes. Raises RequestError naming what it does not understand."""
    if len(text) > LONGEST:
        raise RequestError(f"an expression of {len(text)} characters; expected at most {LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RequestError(f"{show(text)}: not an expression such as relu(a * 2 + b)") from None
    _check(tree, variables)
    return Expression(tree)


def function_names() -> list[str]:
    """The functions that users may name, sorted."""
    return sorted(name for name in FUNCTIONS if not name.startswith("_"))


def check_integers(expression: Expression) -> None:
    """Raise RequestError for what integers cannot compute: fractions, divisions and most functions."""
    for node in ast.walk(expression.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            raise RequestError(f"{expression.text}: integers are not divided; give a floating-point output type")
        if isinstance(node, ast.Constant) and not _number(node).is_integer():
            raise RequestError(f"{expression.text}: {_number(node)} is no integer; give a floating-point output type")
        if isinstance(node, ast.Name) and node.id in CONSTANTS:
            raise RequestError(f"{expression.text}: {node.id} is no integer; give a floating-point output type")
        if isinstance(node, ast.Call) and not FUNCTIONS[_called(node)].integer:
            raise RequestError(f"{expression.text}: {_called(node)} has no meaning for integers")


def evaluate_exactly(expression: Expression, variables: Mapping[str, Any]) -> Any:
    """Its value on float64 or int64 arrays."""
    with np.errstate(all="ignore"):
        return expression.evaluate(_Exactly(), variables)


class _Exactly:
    """Arrays as NumPy computes them."""

    def number(self, value: float) -> Any:
        return int(value) if float(value).is_integer() else value

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide
        }  # fmt: skip
        return functions[symbol](left, right)

    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
            "!=": np.not_equal,
        }  # fmt: skip
        return functions[symbol](left, right)

    def negate(self, value: Any) -> Any:
        return np.negative(value)

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        return FUNCTIONS[name].exact(*arguments)


# -- the tree


def _tree_of(item: object) -> ast.expr:
    if isinstance(item, Expression):
        return item.tree
    if isinstance(item, (int, float)) and not isinstance(item, bool):
        return ast.Constant(item) if item >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-item))
    raise RequestError(f"{show(item)} is no part of an expression; expected an expression or a number")


def _names(tree: ast.expr) -> Iterator[ast.Name]:
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)


def _called(node: ast.Call) -> str:
    assert isinstance(node.func, ast.Name)
    return node.func.id


def _number(node: ast.Constant) -> float:
    assert isinstance(node.value, (int, float))  # `_check` admits nothing else
    return float(node.value)


def _check(node: ast.expr, variables: tuple[str, ...]) -> None:
    """Refuse everything that is not part of an expression."""
    written = show(ast.unparse(node))
    if isinstance(node, ast.Name):
        if node.id not in variables and node.id not in CONSTANTS:
            raise RequestError(f"there is no array {node.id!r} in the expression; {suggest(node.id, variables)}")
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)) or abs(node.value) > 3.4e38:
            raise RequestError(f"{written}: expected a number that f32 can hold")
    elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        _check(node.left, variables)
        _check(node.right, variables)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check(node.operand, variables)
    elif isinstance(node, ast.Call):
        _check_call(node, variables, written)
    elif isinstance(node, ast.Compare):
        raise RequestError(f"{written}: a comparison may only be the first argument of where(condition, yes, no)")
    else:
        raise RequestError(f"{written}: expected arrays, numbers, + - * /, and functions such as relu")


def _check_call(node: ast.Call, variables: tuple[str, ...], written: str) -> None:
    names = function_names()
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        raise RequestError(f"{written}: unknown function; {suggest(ast.unparse(node.func), names)}")
    arity = FUNCTIONS[node.func.id].arity
    if len(node.args) != arity or node.keywords or any(isinstance(item, ast.Starred) for item in node.args):
        raise RequestError(f"{written}: {node.func.id} takes {arity} argument{'s' * (arity > 1)}")
    arguments = node.args
    if node.func.id == "where":
        condition = arguments[0]
        if not isinstance(condition, ast.Compare) or len(condition.ops) != 1 or type(condition.ops[0]) not in COMPARE:
            raise RequestError(f"{written}: the first argument of where is one comparison, such as a > 0")
        arguments = [condition.left, condition.comparators[0], *arguments[1:]]
    for argument in arguments:
        _check(argument, variables)


def _evaluate(node: ast.expr, domain: Domain[T], variables: Mapping[str, T]) -> T:
    def of(part: ast.expr) -> T:
        return _evaluate(part, domain, variables)

    if isinstance(node, ast.Name):
        return variables[node.id] if node.id in variables else domain.number(CONSTANTS[node.id])
    if isinstance(node, ast.Constant):
        return domain.number(_number(node))
    if isinstance(node, ast.UnaryOp):
        return domain.negate(of(node.operand))
    if isinstance(node, ast.BinOp):
        return domain.binary(BINARY[type(node.op)], of(node.left), of(node.right))
    if isinstance(node, ast.Compare):
        return domain.compare(COMPARE[type(node.ops[0])], of(node.left), of(node.comparators[0]))
    assert isinstance(node, ast.Call)
    return domain.call(_called(node), [of(argument) for argument in node.args])


def expanded(name: str, domain: Domain[T], arguments: Sequence[T]) -> T:
    """A function that is a text, evaluated in a domain."""
    text = FUNCTIONS[name].text
    assert text is not None
    parameters = PARAMETERS[: len(arguments)]
    return parse(text, parameters).evaluate(domain, dict(zip(parameters, arguments, strict=True)))
