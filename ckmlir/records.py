"""Records: those that have abstract methods, the fields of any, and what they hold as plain values."""

import dataclasses
from abc import ABCMeta
from typing import Any

from msgspec import Struct, StructMeta, to_builtins


class Abstract(StructMeta, ABCMeta):
    """Makes a `Struct` with abstract methods, and all that derive from it: none is an object before it has them all."""


def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a record's class, a `Struct` or a dataclass, in order; None for another class."""
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def hints_of(kind: type) -> dict[str, str]:
    """What a class and its bases annotate attributes with, as text."""
    written = [vars(base).get("__annotations__", {}) for base in reversed(kind.__mro__)]
    return {name: str(hint) for each in written for name, hint in each.items()}


def plain(record: object) -> dict[str, Any]:
    """A record, and those in it, as dictionaries by the names of their fields; NumPy's numbers become Python's."""
    found: dict[str, Any] = to_builtins(record, enc_hook=lambda number: number.item())
    return found
