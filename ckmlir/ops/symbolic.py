"""Numbers that record what is computed of them: how a function of a problem becomes one of the problem's numbers.

A function is called with a problem whose numbers are symbols. A symbol has a value, that of the problem, and behaves as
it; beside that each operation is noted, and each comparison with its outcome. Code of what was noted
(`ckmlir.ops.recorded`) computes the same of another problem wherever all comparisons have the same outcomes (guards, as
tracing compilers call them).

Nothing is lost in silence: where Python or a library asks a symbol for its value, to count, to index or to print, the
value itself becomes such a comparison.
"""

from __future__ import annotations

import copy
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from ckmlir.records import field_names

MOST_LINES = 400
"""Parts of a problem beyond which nothing is recorded: reading them takes longer than asking again."""
_NUMBERS = (int, float, np.generic)
NAME = re.compile(r"\b[ovt]\d+\b")
"""What is defined: objects, numbers of the problem, and what follows from them."""


class Hashed(BaseException):
    """A symbol was hashed; what is found by it in a table must not depend on who asks. Not an `Exception`, so that
    nobody on the way takes it for a refusal."""

    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol


class NotRecorded(Exception):
    """A problem that holds what is neither a number, nor text, nor made of these."""


class Symbol:
    """A number that has a value and records what is computed of it."""

    __slots__ = ("_recorder", "name", "origin", "value")
    __array_ufunc__ = None  # NumPy's scalars leave operations to it

    def __init__(self, recorder: Recorder, name: str, value: Any) -> None:
        self._recorder, self.name, self.value = recorder, name, value
        self.origin: tuple[Symbol, int] = (self, 0)
        """An integer that it is further than another by a constant."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # what isinstance asks
        return type(self.value)

    def applied(self, function: Callable[..., Any], *others: Any) -> Any:
        """What a function without side effects gives of this number and others."""
        places = ", ".join(["{}"] * (1 + len(others)))
        return self._recorder.apply(f"{self._recorder.constant(function)}({places})", function, self, *others)

    def cast(self, kind: type[np.generic]) -> Any:
        """The same number in one of NumPy's types."""
        made = self.applied(kind)
        if issubclass(kind, np.integer):
            self._recorder.whole[made.name] = self
        return made

    def item(self) -> Any:
        """As that of NumPy's scalars; of a whole number that was cast what it was before, which is the same."""
        found = self._recorder.whole.get(self.name)
        return self._recorder.apply("{}.item()", lambda value: value.item(), self) if found is None else found

    def fixed(self) -> Any:
        """The value, which becomes a condition."""
        self._recorder.require_value(self)
        return self.value

    def bit_length(self) -> Any:
        """As that of `int`."""
        return self._recorder.apply("{}.bit_length()", int.bit_length, self)

    def __hash__(self) -> int:
        if self._recorder.is_open:
            raise Hashed(self)
        return hash(self.value)

    def __bool__(self) -> bool:
        return self._recorder.decide(self.name, bool(self.value))

    def __format__(self, form: str) -> str:
        return format(self.fixed(), form)

    def __str__(self) -> str:
        return str(self.fixed())

    def __repr__(self) -> str:
        return repr(self.fixed())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fixed(), name)


def _operation(template: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: Symbol, *others: Any) -> Any:
        return self._recorder.apply(template, function, self, *others)

    return apply


def _reflected(template: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: Symbol, other: Any) -> Any:
        return self._recorder.apply(template, function, other, self)

    return apply


def _comparison(template: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: Symbol, other: Any) -> Any:
        return self._recorder.compare(template, function, self, other)

    return compare


def _call(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: self.applied(function, *others)


def _conversion(function: Callable[[Any], Any]) -> Callable[[Symbol], Any]:
    return lambda self: function(self.fixed())


_function: Any
for _name, _sign in {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<",
    "rshift": ">>", "and": "&", "or": "|", "xor": "^",
}.items():  # fmt: skip
    _function = getattr(operator, f"__{_name}__")
    setattr(Symbol, f"__{_name}__", _operation(f"{{}} {_sign} {{}}", _function))
    setattr(Symbol, f"__r{_name}__", _reflected(f"{{}} {_sign} {{}}", _function))
for _name, _sign in {"neg": "-", "pos": "+", "invert": "~"}.items():
    setattr(Symbol, f"__{_name}__", _operation(f"{_sign}{{}}", getattr(operator, _name)))
for _name, _sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Symbol, f"__{_name}__", _comparison(f"{{}} {_sign} {{}}", getattr(operator, _name)))
for _name, _function in {
    "int": int, "float": float, "index": operator.index, "round": round, "trunc": math.trunc, "floor": math.floor,
    "ceil": math.ceil,
}.items():  # fmt: skip
    setattr(Symbol, f"__{_name}__", _conversion(_function))
for _name, _function in {"abs": abs, "pow": pow}.items():  # the power may be of three numbers
    setattr(Symbol, f"__{_name}__", _call(_function))
for _name, _function in {
    "divmod": lambda self, other: (self // other, self % other),
    "rdivmod": lambda self, other: (other // self, other % self),
}.items():
    setattr(Symbol, f"__{_name}__", _function)


class Recorder:
    """What is noted: definitions of names in their order, and conditions between them."""

    def __init__(self, fixed: frozenset[str] = frozenset()) -> None:
        """Numbers of the problem that are `fixed`, by the text that reads them, become conditions, not symbols."""
        self.is_open = True
        self._fixed = fixed
        self._constants: dict[str, Any] = {}
        self.whole: dict[str, Symbol] = {}
        self.lines: list[Line] = []
        self._known: dict[str, Symbol | None] = {}
        self._objects = 0
        self.numbers: dict[str, int | float] = {}
        """Those of the problem, by the text that reads them, which is the same whatever is fixed."""

    # -- operations ----------------------------------------------------------------------------------------------------

    def apply(self, template: str, function: Callable[..., Any], *operands: Any) -> Any:
        """The result of an operation, a symbol."""
        if not all(isinstance(one, _NUMBERS) for one in operands):
            return NotImplemented
        value = function(*(one.value if type(one) is Symbol else one for one in operands))
        if not self.is_open:
            return value
        if type(value) is int and len(operands) == 2:
            known = self._without_work(function, *operands)
            if known is not None:
                return known
        return self._define("t", f"({template.format(*map(self._text, operands))})", value)

    def _without_work(self, function: Callable[..., Any], left: Any, right: Any) -> Any:
        """An integer that is a number again, or one and a constant; None for any other. Much of what code of sizes
        computes is: strides are products with 1, extents 1 + (length - 1) * stride."""
        if function is operator.sub and type(right) is int:
            function, right = operator.add, -right
        if type(left) is int:
            left, right = right, left
            if function not in (operator.add, operator.mul):
                return None
        if type(left) is not Symbol or type(right) is not int or type(left.value) is not int:
            return None
        if function in (operator.mul, operator.floordiv) and right == 1:
            return left
        if function is operator.mul and right == 0:
            return 0
        if function is not operator.add:
            return None
        base, distance = left.origin
        if distance + right == 0:
            return base
        made = self._define("t", f"({base.name} + ({distance + right}))", left.value + right)
        made.origin = base, distance + right
        return made

    def compare(self, template: str, function: Callable[..., Any], left: Symbol, right: Any) -> Any:
        """The outcome of a comparison, which becomes a condition."""
        if not isinstance(right, _NUMBERS):
            return NotImplemented
        outcome = function(left.value, right.value if type(right) is Symbol else right)
        return self.decide(f"({template.format(left.name, self._text(right))})", bool(outcome))

    def decide(self, text: str, outcome: bool) -> bool:
        """Note which way a decision went."""
        if self.is_open:
            self.require(text if outcome else f"not {text}")
        return outcome

    def require(self, condition: str) -> None:
        """Note a condition."""
        if condition not in self._known:
            self._known[condition] = None
            self.lines.append(Line("", condition))

    def require_value(self, symbol: Symbol) -> None:
        """Note that a symbol has to have the value that it has."""
        if self.is_open:
            self.require(_has_value(symbol.name, symbol.value))

    def constant(self, value: Any) -> str:
        """What the code calls a value that it takes as it is."""
        name = f"c_{type(value).__name__}_{value}" if isinstance(value, np.generic) else f"c{id(value)}"
        name = re.sub(r"\W", "_", name)
        self._constants[name] = value  # kept, so that nothing else comes to have its id
        return name

    def _define(self, letter: str, text: str, value: Any) -> Symbol:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = Symbol(self, f"{letter}{len(self._known)}", value)
            self.lines.append(Line(found.name, text))
        symbol: Symbol = found
        return symbol

    def _text(self, value: Any) -> str:
        if type(value) is Symbol:
            name: str = value.name
            return name
        is_plain = type(value) in (int, bool) or (type(value) is float and math.isfinite(value))
        return f"({value!r})" if is_plain else self.constant(value)

    # -- problems ------------------------------------------------------------------------------------------------------

    def shadow(self, value: Any, text: str) -> Any:
        """The same as a problem, or as a part of it that `text` reads, with symbols for its numbers; all else becomes a
        condition. Raises NotRecorded."""
        kind = type(value)
        if kind in (int, float):
            self.numbers[text] = value
            if text not in self._fixed:
                self.require(f"type({text}) is {kind.__name__}")
                return self._define("v", text, value)
        if kind in (int, float, bool, str, type(None)):
            self.require(_has_value(text, value))
            return value
        if value == ():
            self.require(f"{text} == ()")
            return value
        if isinstance(value, type) or callable(value):
            self.require(f"{text} is {self.constant(value)}")
            return value
        count = f" and len({text}) == {len(value)}" if isinstance(value, tuple) else ""
        self.require(f"(type({text}) is {self.constant(kind)}{count})")
        name, self._objects = f"o{self._objects}", self._objects + 1
        self.lines.append(Line(name, text))
        return self._parts(value, kind, name)

    def _parts(self, value: Any, kind: type, name: str) -> Any:
        if len(self.lines) > MOST_LINES:
            raise NotRecorded(kind, name)
        if kind is dict:
            self.require(f"tuple({name}) == {tuple(value)!r}")
            return {key: self.shadow(one, f"{name}[{key!r}]") for key, one in value.items()}
        if isinstance(value, tuple):
            parts = [self.shadow(one, f"{name}[{place}]") for place, one in enumerate(value)]
            return kind(parts) if kind is tuple else kind(*parts)
        names = field_names(kind)
        if names is None:
            raise NotRecorded(kind, name)
        made = copy.copy(value)  # not checked again: symbols are what it holds
        change = force_setattr if isinstance(value, Struct) else object.__setattr__
        for field in names:
            change(made, field, self.shadow(getattr(value, field), f"{name}.{field}"))
        return made

    def numbers_below(self, symbol: Symbol) -> frozenset[str]:
        """The problem's numbers that a symbol follows from, by the text that reads them."""
        texts, found, waiting = {line.name: line.text for line in self.lines}, set(), [symbol.name]
        while waiting:
            name = waiting.pop()
            if name.startswith("v"):
                found.add(texts[name])
            else:
                waiting += NAME.findall(texts[name])
        return frozenset(found)

    def recorded(self, outputs: Any) -> Recording:
        """What was noted, and what comes out: tuples of symbols and values."""
        return Recording(tuple(self.lines), self._output(outputs), self._constants)

    def _output(self, value: Any) -> str:
        if type(value) is tuple:
            return "(" + "".join(f"{self._output(one)}, " for one in value) + ")"
        return self._text(value)


def numbers_of(problem: Any) -> dict[str, int | float]:
    """The numbers of a problem, by the text that reads them; none of one that cannot be recorded."""
    recorder = Recorder()
    try:
        recorder.shadow(problem, "problem")
    except NotRecorded:
        return {}
    return recorder.numbers


def reader_of(problem: Any, texts: Collection[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives some numbers of problems like this one, by the texts that read them. It raises what Python
    raises where a problem has other parts."""
    recorder = Recorder()
    recorder.shadow(problem, "problem")
    needed = {name for text in texts for name in NAME.findall(text)}
    lines = []
    for name, text in reversed(recorder.lines):
        if name in needed:
            needed.update(NAME.findall(text))
            lines.append(f" {name} = {text}")
    values, scope = "".join(f"{one}, " for one in texts), dict[str, Any]()
    exec("\n".join(["def read(problem):", *reversed(lines), f" return ({values})"]), scope)
    read: Callable[[Any], tuple[Any, ...]] = scope["read"]
    return read


class Recording(NamedTuple):
    """A way through a function: definitions and conditions, the text of what comes out, and what constants are."""

    lines: tuple[Line, ...]
    result: str
    constants: Mapping[str, Any]


class Line(NamedTuple):
    """A name and its definition, or a condition without a name."""

    name: str
    text: str


def _has_value(text: str, value: Any) -> str:
    """The condition that something equals a plain value, in sign too."""
    if value is None or isinstance(value, bool):
        return f"{text} is {value}"
    if not isinstance(value, float):
        return f"{text} == {value!r}"
    if math.isnan(value):
        return f"{text} != {text}"
    number = repr(value) if math.isfinite(value) else f"float('{value!r}')"
    return f"({text} == {number} and copysign(1, {text}) == {math.copysign(1, value)})"
