"""Functions of specifications that are asked once for all kernels that agree in the fields they read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ckmlir.ops.spec import Spec
from ckmlir.records import Joined, field_names

S = TypeVar("S", bound=Spec)
T = TypeVar("T")

MOST_ANSWERS = 100_000
"""That are kept: with more, memory would grow with a space of ten million."""


class Remembered(Generic[S, T]):
    """A function of specifications, which gives the same of the same; any number of threads may call it.

    The function is handed a specification that holds just the fields it read before. Another one that it reads is
    looked up in the whole specification, and from then on kernels have to agree in that one, too: no answer depends on
    a field that is not compared.
    """

    def __init__(self, function: Callable[[S], T], same: Collection[str] = ()) -> None:
        """`same` are fields that all specifications which it is called with agree in: they are not compared."""
        self._function, self._same = function, tuple(same)
        self._agreeing = _Agreeing[T]((), _nothing, {})

    def __call__(self, spec: S) -> T:
        agreeing = self._agreeing
        key = agreeing.key(spec)
        try:
            return agreeing.answers[key]
        except KeyError:
            pass
        seen, others = partly(spec, (*self._same, *agreeing.fields))
        found = self._function(seen)
        if others:
            fields = (*agreeing.fields, *others)
            agreeing = self._agreeing = _Agreeing(fields, attrgetter(*fields), {})
            key = agreeing.key(spec)
        elif len(agreeing.answers) >= MOST_ANSWERS:
            agreeing.answers.clear()
        agreeing.answers[key] = found
        return found


class _Agreeing(Struct, Generic[T]):
    """Answers by what the fields hold that were read for any of them."""

    fields: tuple[str, ...]
    key: Callable[[Any], object]
    answers: dict[object, T]


def _nothing(spec: Spec) -> None:
    """What has been read of a specification before anything was."""


def partly(spec: S, fields: tuple[str, ...]) -> tuple[S, Mapping[str, None]]:
    """A specification that holds these fields of another, and looks up the rest; and the names of those it looked up,
    as they come.
    """
    made, others = object.__new__(_partial(type(spec))), dict[str, None]()
    _own(made).update({name: getattr(spec, name) for name in fields}, **{_WHOLE: (spec, others)})
    return made, others


_WHOLE = "_whole"


class _LookedUp:
    """A field that a specification holds in part: objects have their own before a class's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, partial: Any, kind: type[Any]) -> Any:
        own, name = _own(partial), self._name
        whole, others = own[_WHOLE]
        others[name] = None
        own[name] = getattr(whole, name)
        return own[name]


def _own(partial: Any) -> dict[str, Any]:
    """The attributes that an object holds itself."""
    found: dict[str, Any] = Joined.__dict__["__dict__"].__get__(partial)
    return found


@functools.cache
def _partial(kind: type[Any]) -> type[Any]:
    """A subclass whose objects hold fields in part, and call themselves the class's."""
    names = field_names(kind) or ()

    def with_fields(self: Any, fields: Mapping[str, Any]) -> Any:
        made = object.__new__(type(self))
        _own(made).update({**_own(self), **fields})
        return made

    def all_fields(self: Any) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    return type(kind.__name__, (kind,), {
        **{name: _LookedUp(name) for name in names},
        "with_fields": with_fields, "__class__": property(lambda self: kind), "__dict__": property(all_fields),
    })  # fmt: skip
