"""Data classes whose methods are compiled when they are first called.

    from ckmlir.data_classes import dataclass

    @dataclass(frozen=True)
    class Block:
        rows: int
        columns: int = 64

For type checkers the decorator is that of `dataclasses`, and what it makes is a data class for `fields`, `replace`,
`asdict` and classes that derive from it. The standard library compiles up to six methods of a class from text, .3 ms,
when the class is made, which was two fifths of the time that our modules took to import. Here a method is compiled when
it is first asked for: most processes make objects of a few classes, and hash or compare fewer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, kw_only=False, slots=False):
        """As `dataclasses.dataclass`, with the options that this package uses and without `InitVar`."""
        if cls is None:
            return lambda one: _processed(one, eq, frozen, kw_only, slots)
        return _processed(cls, eq, frozen, kw_only, slots)


Fields = dict[str, "dataclasses.Field[Any]"]


def _processed(cls: type, eq: bool, frozen: bool, kw_only: bool, slots: bool) -> type:
    """The class with its methods; with slots another one."""
    fields: Fields = {}
    for base in reversed(cls.__mro__[1:]):
        made = vars(base).get("__dataclass_params__")
        if made is not None and made.frozen != frozen:
            raise TypeError(f"{cls.__name__} and its base {base.__name__} have to be both frozen, or neither")
        fields |= vars(base).get("__dataclass_fields__", {})
    model = _model(cls, kw_only)
    own: Fields = model.__dataclass_fields__
    for name in own:
        if isinstance(vars(cls).get(name), dataclasses.Field):
            if name in vars(model):
                setattr(cls, name, vars(model)[name])
            else:
                delattr(cls, name)
    if slots:
        cls = _with_slots(cls, [one.name for one in dataclasses.fields(model)], frozen)
    parameters = model.__dataclass_params__
    parameters.init = parameters.repr = True
    parameters.eq, parameters.frozen = eq, frozen
    _set(cls, "__dataclass_params__", parameters)
    _set(cls, "__dataclass_fields__", fields | own)
    there = vars(cls)
    hashes = there.get("__hash__", ...) is ... or (there["__hash__"] is None and "__eq__" in there)
    methods: dict[str, object] = {
        "__match_args__": tuple(one.name for one in dataclasses.fields(cls) if one.init and not one.kw_only),
        "__init__": _Later(cls, "__init__", _init),
        "__repr__": _repr,
    }
    if eq:
        methods["__eq__"] = _Later(cls, "__eq__", _eq)
    for name in methods.keys() - there.keys():
        _set(cls, name, methods[name])
    if eq and hashes:
        _set(cls, "__hash__", _Later(cls, "__hash__", _hash) if frozen else None)
    if frozen:
        _freeze(cls)
    return cls


def _set(cls: type, name: str, value: object) -> None:
    type.__setattr__(cls, name, value)


def _model(cls: type, kw_only: bool) -> Any:
    """A data class with the fields of this class alone, as the standard library reads annotations, and no methods."""
    annotations = vars(cls).get("__annotations__", {})
    names = {"__annotations__": annotations, "__module__": cls.__module__, "__doc__": "no text of a signature is made"}
    names |= {name: vars(cls)[name] for name in annotations if name in vars(cls)}
    return dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=kw_only)(
        type(cls.__name__, (), names)
    )


def _with_slots(cls: type, own: Collection[str], frozen: bool) -> type:
    """The class again, with slots for its fields; objects that refuse assignments are copied and pickled by field."""
    inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
    names = {name: value for name, value in vars(cls).items() if name not in (*own, "__dict__", "__weakref__")}
    names["__slots__"] = tuple(name for name in own if name not in inherited)
    if frozen:
        names.setdefault("__getstate__", _state)
        names.setdefault("__setstate__", _take_state)
    made = type(cls)(cls.__name__, cls.__bases__, names)
    made.__qualname__ = cls.__qualname__
    return made


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _take_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


class _Later:
    """Stands for a method in its class until it is asked for, which compiles it and puts it there."""

    def __init__(self, cls: type, name: str, text: Callable[[type, dict[str, Any]], list[str]]) -> None:
        self.cls, self.name, self.text = cls, name, text

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if vars(self.cls)[self.name] is self:
            known: dict[str, Any] = {"__name__": self.cls.__module__}
            exec("\n ".join(self.text(self.cls, known)), known)
            known[self.name].__qualname__ = f"{self.cls.__qualname__}.{self.name}"
            _set(self.cls, self.name, known[self.name])
        return vars(self.cls)[self.name].__get__(instance, owner)


def _init(cls: Any, known: dict[str, Any]) -> list[str]:
    """The lines of `__init__`; `known` gets what they name."""
    known |= {"_put": object.__setattr__, "_absent": dataclasses.MISSING}
    frozen, slots = cls.__dataclass_params__.frozen, "__slots__" in vars(cls)
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}
    lines = []
    for one in dataclasses.fields(cls):
        name = value = one.name
        made, default = one.default_factory is not dataclasses.MISSING, one.default is not dataclasses.MISSING
        if made or default:
            known[f"_of_{name}"] = one.default_factory if made else one.default
        if one.init:
            assigned = "=_absent" if made else f"=_of_{name}" if default else ""
            parameters[bool(one.kw_only)].append(name + assigned)
            value = f"_of_{name}() if {name} is _absent else {name}" if made else name
        elif made or (default and slots):
            value = f"_of_{name}()" if made else f"_of_{name}"
        else:
            continue  # that of the class, or what `__post_init__` assigns
        lines.append(f"_put(self, '{name}', {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    listed = parameters[False] + ["*"] * bool(parameters[True]) + parameters[True]
    return [f"def __init__({', '.join(listed)}):", *(lines or ["pass"])]


def _eq(cls: Any, known: dict[str, Any]) -> list[str]:
    compared = [one.name for one in dataclasses.fields(cls) if one.compare]
    equal = f" return {_tuple('self', compared)} == {_tuple('other', compared)}"
    return ["def __eq__(self, other):", "if other.__class__ is self.__class__:", equal, "return NotImplemented"]


def _hash(cls: Any, known: dict[str, Any]) -> list[str]:
    hashed = (one.name for one in dataclasses.fields(cls) if (one.compare if one.hash is None else one.hash))
    return ["def __hash__(self):", f"return hash({_tuple('self', hashed)})"]


def _tuple(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _freeze(cls: Any) -> None:
    """Refuse assignments to objects of the class, and to its fields of those of classes that are derived from it."""
    names = frozenset(cls.__dataclass_fields__)

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    for name, method in (("__setattr__", assign), ("__delattr__", delete)):
        if name in vars(cls):
            raise TypeError(f"{cls.__name__} has its own {name}, which objects that cannot be assigned to do not use")
        _set(cls, name, method)
