"""What somebody reads of a specification: kernels that agree in that get the same answer."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

from ckmlir.ops.spec import Spec

S = TypeVar("S", bound=Spec)


def watched(spec: S) -> tuple[S, dict[str, None]]:
    """An equal specification, and the names of the fields that are read of it, as they are."""
    kind = _watching(type(spec))
    made, names = object.__new__(kind), tuple(field.name for field in dataclasses.fields(spec))
    read: dict[str, None] = {}
    values = object.__getattribute__(made, "__dict__")
    values.update({name: getattr(spec, name) for name in names}, **{_READ: read, _NAMES: frozenset(names)})
    return made, read


_READ, _NAMES = "_watched_fields", "_watched_names"


@functools.cache
def _watching(kind: type[Any]) -> type[Any]:
    """A subclass that says which fields are read, and calls itself the class."""

    def __getattribute__(self: Any, name: str) -> Any:
        if name == "__class__":
            return kind
        value = object.__getattribute__(self, name)
        values = object.__getattribute__(self, "__dict__")
        if name in values[_NAMES]:
            values[_READ][name] = None
        elif name == "__dict__":  # who knows what is read of that
            values[_READ].update(dict.fromkeys(values[_NAMES]))
        return value

    return type(kind.__name__, (kind,), {"__getattribute__": __getattribute__})
