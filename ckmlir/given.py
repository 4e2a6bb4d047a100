"""What functions are given, compared with their annotations.

The annotation is the rule: `Parameters` reads it when the function is called first. Numbers of NumPy are taken for
Python's, sequences for tuples, text for paths; a bool is not a number. What does not fit is refused in a user's words.

The functions of the language are checked where they are traced (`ckmlir.lang.trace`). For other functions that users
call, and records that they make, `ckmlir.errors` asks here where a value is not plainly of the type that is named.
"""

from __future__ import annotations

import collections.abc
import contextlib
import numbers
import os
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ckmlir.errors import CkmlirError

if TYPE_CHECKING:
    from pathlib import Path

NOUNS = {
    "Tile": "a tile", "Scalar": "a scalar", "Pointer": "a pointer", "View": "a view", "Window": "a window",
    "LdsTensor": "an LDS tensor", "Stretched": "a tile with a new axis", "Distribution": "a Distribution",
    "Schedule": "a Schedule", "Mma": "an Mma", "Target": "a Target", "int": "a whole number", "float": "a number",
    "str": "text", "bool": "True or False", "NoneType": "None", "ScalarArgument": "the type of a kernel's argument",
    "PointerArgument": "the type of a kernel's argument", "Operator": "an operator", "Path": "a path",
    "Device": "a device", "Callable": "a function",
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
    ("Operator", "str"): "find_operator(name) finds it",
    ("Device", "str"): "open_device(name, target) opens it",
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

    def taken(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """What to call the function with. Raises TypeError for what does not fit a parameter."""
        if not self._ready:
            self._read()
        kinds, rest = self._kinds, self._rest
        taken = []
        for place, value in enumerate(args):
            kind = kinds[place] if place < len(kinds) else rest
            if kind is not None and type(value) not in kind.exact:
                value = self._take(kind, value, self._names[min(place, len(self._names) - 1)])
            taken.append(value)
        named = {}
        for name, value in kwargs.items():
            kind = self._by_name.get(name)
            named[name] = value if kind is None or type(value) in kind.exact else self._take(kind, value, name)
        return taken, named

    def _take(self, kind: Kind, value: Any, name: str) -> Any:
        try:
            return kind.take(value)
        except Unfit as unfit:
            what = self._function.__qualname__.removesuffix(".__init__")
            one_by_one = name == self._rest_name and isinstance(value, (tuple, list))
            hint = "its elements go one by one" if one_by_one else None
            raise TypeError(refusal(what, name, kind, unfit.value, hint)) from None

    def _read(self) -> None:
        import inspect  # of no use where nothing is called

        hints = _hints(self._function)
        parameters = inspect.signature(self._function).parameters
        by_name = {name: kind_of(hints[name]) if name in hints else None for name in parameters}
        kinds = []
        for name, parameter in parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                self._rest, self._rest_name = by_name[name], name
            elif parameter.kind is not parameter.KEYWORD_ONLY:
                kinds.append(by_name[name])
        # As a whole: other threads may be at the same.
        self._kinds, self._by_name, self._names = kinds, by_name, list(parameters)
        self._ready = True


def check_record(record: Any, error: type[CkmlirError]) -> None:
    """Raise this error for a field of a record that does not hold what its annotation asks for."""
    for name, kind in _kinds_of(type(record)).items():
        value = getattr(record, name)
        if type(value) not in kind.exact:
            try:
                kind.take(value)
            except Unfit as unfit:
                raise error(refusal(type(record).__name__, name, kind, unfit.value)) from None


def _kinds_of(record: type) -> Mapping[str, Kind]:
    """What the fields take, of those that do not take anything."""
    if record not in _fields:
        kinds = {name: kind_of(hint) for name, hint in _hints(record).items()}
        _fields[record] = {name: kind for name, kind in kinds.items() if kind is not None}
    return _fields[record]


_fields: dict[type, Mapping[str, Kind]] = {}


def _hints(annotated: Any) -> Mapping[str, Any]:
    """The annotations of a function or class, without those that name what is imported for type checkers alone."""
    try:
        return typing.get_type_hints(annotated)
    except NameError:
        hints: dict[str, Any] = {}
        for name, hint in annotated.__annotations__.items():
            with contextlib.suppress(NameError):
                one = SimpleNamespace(__annotations__={name: hint})
                hints |= typing.get_type_hints(one, vars(sys.modules[annotated.__module__]))
        return hints


def refusal(what: str, name: str, kind: Kind, value: Any, hint: str | None = None) -> str:
    """What is said of a value that does not fit the parameter `name` of what is called `what`."""
    known = next(filter(None, (HINTS.get((one, type(value).__name__)) for one in kind.names)), "")
    told = hint or known
    return f"{what} takes {kind.words} as {name}, not {described(value)}{told and '; ' + told}"


def kind_of(hint: Any) -> Kind | None:
    """The kind that an annotation asks for; None for one that takes anything."""
    if isinstance(hint, typing.TypeVar) and hint.__constraints__:
        return _one_of([kind_of(one) for one in hint.__constraints__])
    origin = typing.get_origin(hint)
    if origin is not None:
        return _kind_of_several(origin, typing.get_args(hint))
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and (hint.__module__.partition(".")[0], hint.__name__) == ("pathlib", "Path"):
        return Kind(frozenset({type(hint())}), _path, NOUNS["Path"], ("Path",))
    if getattr(hint, "_is_protocol", False):
        return _protocol(hint)
    if isinstance(hint, type) and hint is not object and hint.__module__ != "typing":
        name = hint.__name__
        kind = _checked(lambda value: isinstance(value, hint), NOUNS.get(name, f"a {name}"), name)
        return Kind(frozenset({hint}), kind.take, kind.words, kind.names)
    return None


def _kind_of_several(origin: Any, args: Sequence[Any]) -> Kind | None:
    """The kind that an annotation with others in it asks for."""
    if origin in (typing.Union, UnionType):
        return _one_of([kind_of(one) for one in args])
    if origin is collections.abc.Sequence or (origin is tuple and args[1:] == (Ellipsis,)):
        return _sequence(kind_of(args[0]))
    if origin in (collections.abc.Iterable, collections.abc.Collection):
        return _several(origin, kind_of(args[0]))
    if origin is collections.abc.Mapping:
        return _mapping(*map(kind_of, args))
    if origin is collections.abc.Callable:
        return _checked(callable, NOUNS["Callable"], "Callable")
    return kind_of(origin) if getattr(origin, "__module__", "").startswith("ckmlir.") else None


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


def _several(origin: type, inner: Kind | None) -> Kind:
    """What can be gone through. Where that is possible once only, its values are not looked at."""

    def take(value: Any) -> Any:
        if not isinstance(value, origin):
            raise Unfit(value)
        if isinstance(value, collections.abc.Collection):
            _take_each(inner, value)
        return value

    words = "several values" if inner is None else f"several {_plural(inner)}"
    return Kind(frozenset(), take, words, (origin.__name__,))


def _mapping(name: Kind | None, inner: Kind | None) -> Kind:
    def take(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Unfit(value)
        _take_each(name, value.keys())
        _take_each(inner, value.values())
        return value

    words = f"a mapping{f' to {inner.words}' if inner else ''}"
    return Kind(frozenset(), take, words, ("Mapping",))


def _take_each(kind: Kind | None, values: Iterable[Any]) -> None:
    """Raise Unfit for a value that is not of the kind."""
    if kind is not None:
        for value in values:
            if type(value) not in kind.exact:
                kind.take(value)


def _protocol(hint: type) -> Kind:
    # Who implements a part of a protocol may be given where the rest is not asked for: most of it is enough.
    members = [name for name in (*vars(hint), *vars(hint).get("__annotations__", ())) if not name.startswith("_")]
    words = NOUNS.get(hint.__name__, f"a {hint.__name__}")

    def fits(value: Any) -> bool:
        return 2 * sum(hasattr(value, name) for name in members) > len(members)

    return _checked(fits, words, hint.__name__)


def _path(value: Any) -> Path:
    from pathlib import Path  # is there where a function asks for one; a library's first call loads none

    if not isinstance(value, (str, os.PathLike)) or not isinstance(found := os.fspath(value), str):
        raise Unfit(value)
    return Path(found)


def _is_row(value: Any) -> bool:
    """Whether it is an array of one dimension."""
    return getattr(value, "ndim", 0) == 1 and hasattr(value, "dtype")


def _plural(kind: Kind) -> str:
    return " or ".join(
        {"int": "whole numbers", "float": "numbers", "NoneType": "None"}.get(name, f"{name.lower()}s")
        for name in kind.names
    )


PLAIN: Mapping[Any, Kind] = {
    int: Kind(frozenset({int}), _whole, NOUNS["int"], ("int",)),
    bool: Kind(frozenset({bool}), _truth, NOUNS["bool"], ("bool",)),
    float: Kind(frozenset({float, int}), _real, NOUNS["float"], ("float",)),
}
"""Types that take other values than their own, or not all of their own."""


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
