"""The tree of an expression: what may be in it, its text, and its value in a domain.

Trees are Python's own (`ast`), and walked without recursion: a sum of hundreds of terms is hundreds of nodes deep.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ckmlir.errors import suggest
from ckmlir.ops.request import GREATEST_F32, RequestError, show
from ckmlir.ops.tensors.functions import FUNCTIONS, function_names

T = TypeVar("T")
CONSTANTS = {"inf": math.inf, "pi": math.pi}
LONGEST = 2000
"""Characters of an expression."""
BINARY: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
MOST_MULTIPLIED = 64
"""The largest whole exponent of `pow` that is computed by multiplications."""


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


# -- walking


def parts(node: ast.expr) -> Sequence[ast.expr]:
    """What a node's value is made of."""
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.UnaryOp):
        return (node.operand,)
    if isinstance(node, ast.Compare):
        return node.left, *node.comparators
    return node.args if isinstance(node, ast.Call) else ()


def parts_first(tree: ast.expr) -> Iterator[ast.expr]:
    """Every node once, behind all its parts."""
    done: set[int] = set()
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes[-1]
        missing = [part for part in parts(node) if id(part) not in done]
        if missing:
            open_nodes.extend(reversed(missing))
            continue
        open_nodes.pop()
        if id(node) not in done:
            done.add(id(node))
            yield node


def names(tree: ast.expr) -> set[str]:
    """The names of variables and constants."""
    return {node.id for node in parts_first(tree) if isinstance(node, ast.Name)}


def called(node: ast.Call) -> str:
    """The name of the function that a checked call calls."""
    assert isinstance(node.func, ast.Name)
    return node.func.id


def number_of(node: ast.Constant) -> float:
    """The number that a checked constant is."""
    assert isinstance(node.value, (int, float))
    return float(node.value)


# -- values


def evaluate(tree: ast.expr, domain: Domain[T], variables: Mapping[str, T]) -> T:
    """The value of a checked tree where the variables have these."""
    values: dict[int, T] = {}
    for node in parts_first(tree):
        values[id(node)] = _value(node, domain, variables, [values[id(part)] for part in parts(node)])
    return values[id(tree)]


def _value(node: ast.expr, domain: Domain[T], variables: Mapping[str, T], given: Sequence[T]) -> T:
    """The value of a node whose parts have the values `given`."""
    if isinstance(node, ast.Name):
        return variables[node.id] if node.id in variables else domain.number(CONSTANTS[node.id])
    if isinstance(node, ast.Constant):
        return domain.number(number_of(node))
    if isinstance(node, ast.UnaryOp):
        return domain.negate(*given)
    if isinstance(node, ast.BinOp):
        return domain.binary(BINARY[type(node.op)], *given)
    if isinstance(node, ast.Compare):
        return domain.compare(COMPARE[type(node.ops[0])], *given)
    assert isinstance(node, ast.Call)
    exponent = _whole_exponent(node)
    if exponent is not None and not isinstance(domain, _Text):
        return _power(domain, given[0], exponent)
    return domain.call(called(node), given)


def _whole_exponent(node: ast.Call) -> int | None:
    """The exponent of `pow(x, 3)` where it is written as a small whole number."""
    if called(node) != "pow":
        return None
    exponent, sign = node.args[1], 1
    if isinstance(exponent, ast.UnaryOp):
        exponent, sign = exponent.operand, -1
    if not isinstance(exponent, ast.Constant):
        return None
    number = number_of(exponent)
    return sign * int(number) if number.is_integer() and number <= MOST_MULTIPLIED else None


def _power(domain: Domain[T], base: T, exponent: int) -> T:
    """A whole power by repeated squaring: exact signs, and an error of a few roundings."""
    if exponent < 0:
        base = domain.binary("/", domain.number(1), base)
    result: T | None = None
    left = abs(exponent)
    while left:
        if left & 1:
            result = base if result is None else domain.binary("*", result, base)
        left >>= 1
        if left:
            base = domain.binary("*", base, base)
    return domain.number(1) if result is None else result


# -- text


class _Written(NamedTuple):
    """A text and how tightly it holds together."""

    text: str
    binds: int

    def within(self, least: int) -> str:
        """The text as a part of something that binds so tightly."""
        return self.text if self.binds >= least else f"({self.text})"


COMPARED, ADDED, MULTIPLIED, NEGATED, SINGLE = range(5)


class _Text:
    """The domain of texts, as `ast.unparse` writes them."""

    def number(self, value: float) -> _Written:
        whole = abs(value) < 2**53 and value == int(value)
        return _Written(str(int(value)) if whole else repr(value), SINGLE)

    def binary(self, symbol: str, left: _Written, right: _Written) -> _Written:
        binds = ADDED if symbol in "+-" else MULTIPLIED
        return _limited(_Written(f"{left.within(binds)} {symbol} {right.within(binds + 1)}", binds))

    def compare(self, symbol: str, left: _Written, right: _Written) -> _Written:
        return _limited(_Written(f"{left.within(ADDED)} {symbol} {right.within(ADDED)}", COMPARED))

    def negate(self, value: _Written) -> _Written:
        return _limited(_Written(f"-{value.within(NEGATED)}", NEGATED))

    def call(self, name: str, arguments: Sequence[_Written]) -> _Written:
        return _limited(_Written(f"{name}({', '.join(argument.text for argument in arguments)})", SINGLE))


def _limited(written: _Written) -> _Written:
    check_length(written.text)
    return written


def check_length(text: str) -> None:
    """Raise RequestError for a text that is too long."""
    if len(text) > LONGEST:
        raise RequestError(f"an expression of {len(text)} characters; expected at most {LONGEST}")


def text_of(tree: ast.expr) -> str:
    """The canonical text that reads as the same tree. Raises RequestError where that is longer than LONGEST."""
    return evaluate(tree, _Text(), {name: _Written(name, SINGLE) for name in names(tree)}).text


# -- checks

LEAST_F32 = 2.0**-149
"""The smallest number of f32, a denormal one."""


def check_tree(tree: ast.expr, text: str, variables: tuple[str, ...]) -> None:
    """Raise RequestError for everything that is not part of an expression; `text` is what the tree was read from."""
    unchecked: list[ast.expr] = [tree]
    while unchecked:
        node = unchecked.pop()
        written = show(ast.get_source_segment(text, node) or text)
        unchecked.extend(reversed(_checked(node, written, variables)))


def _checked(node: ast.expr, written: str, variables: tuple[str, ...]) -> Sequence[ast.expr]:
    """The parts of a node that is allowed itself."""
    if isinstance(node, ast.Name):
        if node.id not in variables and node.id not in CONSTANTS:
            raise RequestError(f"there is no array {node.id!r} in the expression; {suggest(node.id, variables)}")
    elif isinstance(node, ast.Constant):
        number = node.value
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise RequestError(f"{written}: expected a number")
        if number and not LEAST_F32 <= abs(number) <= GREATEST_F32:
            raise RequestError(f"{written}: expected a number that f32 can hold")
    elif isinstance(node, ast.Call):
        return _checked_call(node, written)
    elif isinstance(node, ast.Compare):
        raise RequestError(f"{written}: a comparison may only be the first argument of where(condition, yes, no)")
    elif not (isinstance(node, ast.BinOp) and type(node.op) in BINARY) and not (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    ):
        raise RequestError(f"{written}: expected arrays, numbers, + - * /, and functions such as relu")
    return parts(node)


def _checked_call(node: ast.Call, written: str) -> Sequence[ast.expr]:
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        what = node.func.id if isinstance(node.func, ast.Name) else written
        raise RequestError(f"{written}: unknown function; {suggest(what, function_names())}")
    arity = FUNCTIONS[node.func.id].arity
    if len(node.args) != arity or node.keywords or any(isinstance(item, ast.Starred) for item in node.args):
        raise RequestError(f"{written}: {node.func.id} takes {arity} argument{'s' * (arity > 1)}")
    if node.func.id != "where":
        return node.args
    condition = node.args[0]
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1 or type(condition.ops[0]) not in COMPARE:
        raise RequestError(f"{written}: the first argument of where is one comparison, such as a > 0")
    return condition.left, condition.comparators[0], *node.args[1:]
