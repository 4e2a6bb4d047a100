"""What functions of the language are given, compared with their annotations.

The annotation is the rule: `Parameters` reads it when the function is called first. Numbers of NumPy are taken for
Python's, sequences for tuples; a bool is not a number. What does not fit is refused in the words of the language.
"""

from __future__ import annotations

import collections.abc
import inspect
import numbers
import typing
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any

from msgspec import Struct

NOUNS = {
    "Tile": "a tile", "Scalar": "a scalar", "Pointer": "a pointer", "View": "a view", "Window": "a window",
    "LdsTensor": "an LDS tensor", "Stretched": "a tile with a new axis", "Distribution": "a Distribution",
    "Schedule": "a Schedule", "Mma": "an Mma", "Target": "a Target", "int": "a whole number", "float": "a number",
    "str": "text", "bool": "True or False", "NoneType": "None", "ScalarArgument": "the type of a kernel's argument",
    "PointerArgument": "the type of a kernel's argument",
}  # fmt: skip
HINTS = {
    ("Window", "View"): "take a window of it: .window(lengths, origin)",
    ("Window", "Pointer"): "make a view of it and a window of that: view(pointer, lengths, strides).window(…)",
    ("Tile", "Window"): "load it",
    ("Tile", "LdsTensor"): "read it: .read(distribution)",
    ("Tile", "Scalar"): "full(lengths, scalar, dtype) makes a tile of it",
    ("Tile", "Stretched"): "it only meets other tiles; stretch(tile, axis, length) is a tile",
    ("int", "Scalar"): "it has to be known when the kernel is traced",
    ("int", "Tile"): "it has to be known when the kernel is traced",
    ("Scalar", "Tile"): "it is one value for the whole workgroup: uniform(tile) of a tile of one element",
    ("Distribution", "str"): "Distribution.parse(text) makes one of it",
    ("Schedule", "str"): "Schedule.parse(text) makes one of it",
    ("Mma", "str"): "Mma.select(target, shape, dtype) finds it",
    ("Target", "str"): "get_target(name) finds it",
    ("str", "ScalarArgument"): 'a dtype is text, such as "f32"',
}


class Unfit(Exception):
    """A value is not of a kind; `value` is what to name in the message."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Kind(Struct, frozen=True):
    """What a parameter takes: values of the types in `exact` as they are, others by `take`, which may raise Unfit."""

    exact: frozenset[type]
    take: Callable[[Any], Any]
    words: str
    names: tuple[str, ...]


class Parameters:
    """The parameters of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._ready = False
        self._kinds: list[Kind | None] = []
        self._rest: Kind | None = None
        self._rest_name = ""
        self._by_name: dict[str, Kind | None] = {}
        self._names: list[str] = []

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the function. Raises TypeError for what does not fit a parameter."""
        if not self._ready:
            self._read()
        kinds, rest = self._kinds, self._rest
        taken = []
        for place, value in enumerate(args):
            kind = kinds[place] if place < len(kinds) else rest
            if kind is not None and type(value) not in kind.exact:
                value = self._take(kind, value, self._names[min(place, len(self._names) - 1)])
            taken.append(value)
        if not kwargs:
            return self._function(*taken)
        named = {}
        for name, value in kwargs.items():
            kind = self._by_name.get(name)
            named[name] = value if kind is None or type(value) in kind.exact else self._take(kind, value, name)
        return self._function(*taken, **named)

    def _take(self, kind: Kind, value: Any, name: str) -> Any:
        try:
            return kind.take(value)
        except Unfit as unfit:
            what = self._function.__qualname__.removesuffix(".__init__")
            hint = next(filter(None, (HINTS.get((one, type(unfit.value).__name__)) for one in kind.names)), "")
            if name == self._rest_name and isinstance(value, (tuple, list)):
                hint = "its elements go one by one"
            raise TypeError(
                f"{what} takes {kind.words} as {name}, not {described(unfit.value)}{hint and '; ' + hint}"
            ) from None

    def _read(self) -> None:
        hints = typing.get_type_hints(self._function)
        for name, parameter in inspect.signature(self._function).parameters.items():
            kind = kind_of(hints[name]) if name in hints else None
            self._by_name[name] = kind
            if parameter.kind is parameter.VAR_POSITIONAL:
                self._rest, self._rest_name = kind, name
            elif parameter.kind is not parameter.KEYWORD_ONLY:
                self._kinds.append(kind)
            self._names.append(name)
        self._ready = True


def kind_of(hint: Any) -> Kind | None:
    """The kind that an annotation asks for; None for one that takes anything."""
    if isinstance(hint, typing.TypeVar) and hint.__constraints__:
        return _one_of([kind_of(one) for one in hint.__constraints__])
    origin = typing.get_origin(hint)
    if origin in (typing.Union, UnionType):
        return _one_of([kind_of(one) for one in typing.get_args(hint)])
    if origin is collections.abc.Sequence:
        return _sequence(kind_of(typing.get_args(hint)[0]))
    if origin is collections.abc.Callable:
        return _checked(callable, "a function", "Callable")
    if hint is int:
        return Kind(frozenset({int}), _whole, NOUNS["int"], ("int",))
    if hint is bool:
        return Kind(frozenset({bool}), _truth, NOUNS["bool"], ("bool",))
    if hint is float:
        return Kind(frozenset({float, int}), _real, NOUNS["float"], ("float",))
    # Python 3.10 takes tuple[int, int] for a type.
    if origin is None and isinstance(hint, type) and hint not in (Any, object):
        name = hint.__name__
        kind = _checked(lambda value: isinstance(value, hint), NOUNS.get(name, f"a {name}"), name)
        return Kind(frozenset({hint}), kind.take, kind.words, kind.names)
    return None


def _checked(fits: Callable[[Any], bool], words: str, name: str) -> Kind:
    def take(value: Any) -> Any:
        if not fits(value):
            raise Unfit(value)
        return value

    return Kind(frozenset(), take, words, (name,))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise Unfit(value)
    return int(value)


def _truth(value: Any) -> bool:
    raise Unfit(value)


def _real(value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise Unfit(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _sequence(inner: Kind | None) -> Kind:
    def take(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or (not isinstance(value, collections.abc.Sequence) and not _is_row(value)):
            raise Unfit(value)
        if inner is None:
            return tuple(value)
        return tuple(item if type(item) in inner.exact else inner.take(item) for item in value)

    words = "several values" if inner is None else f"a sequence of {_plural(inner)}"
    return Kind(frozenset(), take, words, inner.names if inner else ())


def _is_row(value: Any) -> bool:
    """Whether it is an array of one dimension."""
    return getattr(value, "ndim", 0) == 1 and hasattr(value, "dtype")


def _plural(kind: Kind) -> str:
    return " or ".join(
        {"int": "whole numbers", "float": "numbers", "NoneType": "None"}.get(name, f"{name.lower()}s")
        for name in kind.names
    )


def _one_of(kinds: Sequence[Kind | None]) -> Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None

    def take(value: Any) -> Any:
        for kind in known:
            try:
                return value if type(value) in kind.exact else kind.take(value)
            except Unfit:
                continue
        raise Unfit(value)

    # A number may be whole; None stands for an argument that is left out, and is not asked for.
    numbers_too = any("float" in kind.names for kind in known)
    named = [one for one in known if one.names != (NoneType.__name__,) and not (numbers_too and one.names == ("int",))]
    words = " or ".join(one.words for one in named)
    names = tuple(name for kind in known for name in kind.names)
    return Kind(frozenset().union(*(kind.exact for kind in known)), take, words, names)


def described(value: Any) -> str:
    """What a value is, in the words of a message."""
    name = type(value).__name__
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        text = repr(value)
        return text if len(text) < 60 else f"{text[:50]}…"
    if name in NOUNS:
        return NOUNS[name]
    if isinstance(value, type):
        return f"the type {value.__name__}"
    if hasattr(value, "dtype") and hasattr(value, "ndim"):
        return f"{value!r} of NumPy" if not value.ndim else f"an array of {value.dtype}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
