"""Records: those that join the fields of several bases, those that have abstract methods, the fields of any, and what
they hold as plain values.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from msgspec import Struct, StructMeta, structs, to_builtins

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        """Says to type checkers alone how objects are made; Python has it since 3.11."""
        return lambda kind: kind


R = TypeVar("R")


class Abstract(StructMeta, ABCMeta):
    """Makes a `Struct` with abstract methods, and all that derive from it: none is an object before it has them all.

    No class is registered as another's, so `isinstance` need not ask for that, which takes six times as long.
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


@dataclass_transform(frozen_default=True)
class Joined:
    """A frozen record that has the fields of all its bases, which a `Struct` has of one alone.

    Fields are annotated, and made, compared, hashed and shown as those of a frozen dataclass: a class's own behind
    those of its bases, which come in the reverse of the order in which Python looks methods up. No code is made for
    that when a class is: a dataclass of thirty fields takes 2 ms of a cold process. An object is its fields: `vars`
    has them in their order, and nothing else.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, own_value in vars(cls).items():
            if isinstance(own_value, cached_property):
                raise TypeError(f"{cls.__name__}.{name}: a record is its fields; cache in a function, not beside them")
        fields: dict[str, None] = {}
        defaults: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            own = vars(base)
            for name, hint in own.get("__annotations__", {}).items():
                if base is Joined or _is_of_class(hint):
                    continue
                fields[name] = None
                if name in own:
                    defaults[name] = own[name]
        cls._fields, cls._defaults = tuple(fields), defaults

    def __new__(cls, *_: Any, **__: Any) -> Self:
        if hasattr(cls, "__dataclass_fields__"):  # knows nothing of the fields of bases
            raise TypeError(f"{cls.__name__} is a record already; leave @dataclass off")
        return super().__new__(cls)

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self._fields
        own = {**self._defaults, **dict(zip(names, values)), **named}
        try:
            vars(self).update({name: own[name] for name in names})
        except KeyError:
            raise TypeError(self._wrong(values, named)) from None
        if len(own) != len(names) or (values and self._wrong(values, named)):
            raise TypeError(self._wrong(values, named))

    @classmethod
    def _wrong(cls, values: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        """What is wrong with values of fields; "" where nothing is."""
        by_place = cls._fields[: len(values)]
        unknown = [name for name in named if name not in cls._fields]
        twice = [name for name in by_place if name in named]
        missing = [name for name in cls._fields if name not in {*by_place, *named, *cls._defaults}]
        found = [f"no field {name}" for name in unknown] + [f"{name} is given twice" for name in twice]
        found += ["too many values"] * (len(values) > len(cls._fields)) + [f"no value of {name}" for name in missing]
        return f"{cls.__name__}: {found[0]}; the fields are {', '.join(cls._fields)}" if found else ""

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set; `replace` makes another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")


def _is_of_class(hint: object) -> bool:
    """Whether an annotation, or its text, is that of a class's variable."""
    if isinstance(hint, str):
        return hint.removeprefix("typing.").startswith("ClassVar")
    return ClassVar in (hint, getattr(hint, "__origin__", None))


def replace(record: R, /, **changes: Any) -> R:
    """A record with other values of some fields. Raises TypeError for an unknown field, or what is not a record."""
    if isinstance(record, Joined):
        return record.__class__(**{**vars(record), **changes})
    if isinstance(record, Struct):
        return structs.replace(record, **changes)
    from dataclasses import replace as replaced

    dataclass: Any = record
    found: R = replaced(dataclass, **changes)
    return found


def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a record's class, a `Joined`, a `Struct` or a dataclass, in order; None for another class."""
    if issubclass(kind, Joined):
        return kind._fields
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    from dataclasses import fields  # not needed where nothing is one

    dataclass: Any = kind
    return tuple(field.name for field in fields(dataclass))


def field_defaults(kind: type[Joined]) -> Mapping[str, Any]:
    """The defaults of the fields that have one, by name."""
    return kind._defaults


def hints_of(kind: type) -> dict[str, str]:
    """What a class and its bases annotate attributes with, as text."""
    written = [vars(base).get("__annotations__", {}) for base in reversed(kind.__mro__)]
    return {name: str(hint) for each in written for name, hint in each.items()}


def plain(record: object) -> dict[str, Any]:
    """A record, and those in it, as dictionaries by the names of their fields; NumPy's numbers become Python's."""
    found: dict[str, Any] = to_builtins(record, enc_hook=lambda number: number.item())
    return found
