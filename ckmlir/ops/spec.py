"""Kernel specifications as records with a JSON form, and the reasons why one is not valid."""

from __future__ import annotations

import abc
import functools
import json
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Struct

from ckmlir.errors import as_json, from_json
from ckmlir.ops.request import RequestError, show
from ckmlir.records import Joined, field_defaults, field_names
from ckmlir.targets import Target
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS

S = TypeVar("S", bound="Spec")
T = TypeVar("T")

_HOW = "algorithm"
Algorithm = Annotated[T, _HOW]
"""The type of a field of the algorithm: how a kernel computes (tiles, schedules), and what it relies on for that
(alignment, sizes that tiles divide). A field of any other type belongs to the signature: what is computed. Kernels with
one signature compute the same and differ in what they are good at."""


class Counts(Struct, frozen=True):
    """In the annotation of a field of the signature that also says what the kernel relies on: `of` takes from its value
    what is part of the signature.
    """

    of: Callable[[Any], object]


class Reason(Struct, frozen=True):
    """Why a specification cannot be compiled for a chip: the field, its value, what is wrong, what would be right."""

    field: str
    value: object
    why: str
    right: str

    def __str__(self) -> str:
        return f"{self.field}={show(self.value)}: {self.why}; {self.right}"


class Spec(Joined, abc.ABC):
    """What has to be compiled: everything that the kernel's code depends on, and nothing else.

    Fields of subclasses are str, int, bool or tuples of int, so that specifications can be compared, hashed and written
    as JSON.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """A stable, readable identifier of the kernel in letters, digits and underscores; no two specs share it."""

    @property
    def main_loop(self) -> int:
        """Which of the kernel's loops most of the time goes to, as an index of a list of them: what is scheduled."""
        return -1

    @classmethod
    def roles(cls) -> Mapping[str, Callable[[Any], object] | None]:
        """For every field what of its value is part of the signature (a function); None for those of the algorithm."""
        return _roles(cls)

    @classmethod
    def decisive(cls) -> frozenset[str]:
        """The fields of the signature whose whole values count: where one is wrong, it is for all of its signature."""
        return _decisive(cls)

    def signature(self) -> tuple[object, ...]:
        """What is computed, as a value to compare: what the fields of the signature hold, in order."""
        return tuple([of(getattr(self, name)) for name, of in _roles(type(self)).items() if of is not None])

    def with_fields(self: S, fields: Mapping[str, Any]) -> S:
        """The same specification with other values of some fields, as `ckmlir.records.replace` makes it. That looks
        whether they are fields, which spaces do not wait for a hundred thousand times; a specification is its fields.
        """
        found = object.__new__(type(self))
        vars(found).update({**vars(self), **fields})
        return found

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in JSON's types."""
        values = ((name, getattr(self, name)) for name in _types(type(self)))
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    def to_json(self) -> str:
        """One line of JSON; `from_json` gives back an equal specification."""
        return json.dumps(self.to_dict())

    def distinctive(self) -> dict[str, Any]:
        """As `to_dict`, without fields that have their defaults: what says the same after further fields have come."""
        defaults = _defaults(type(self))
        values = ((name, getattr(self, name)) for name in _types(type(self)))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values if value != defaults.get(name)
        }  # fmt: skip

    @classmethod
    def from_dict(cls: type[S], values: object, *, older: bool = False) -> S:
        """The inverse of `to_dict`.

        Args:
            older: an earlier version may have written it: fields that have defaults may be missing.

        Raises:
            RequestError: missing, unknown and wrongly typed fields.
        """
        if not isinstance(values, dict):
            raise RequestError(f"{cls.__name__}: expected an object of fields, got {as_json(values)}")
        types = _types(cls)
        if older:
            values = {**_defaults(cls), **values}
        if values.keys() != types.keys():
            names, missing, unknown = list(types), types.keys() - values.keys(), values.keys() - types.keys()
            which = f"{'no' if missing else 'unknown'} field {sorted(missing or map(str, unknown))[0]}"
            raise RequestError(f"{cls.__name__}: {which}; the fields are {', '.join(names)}")
        given = ((name, expected, values[name]) for name, expected in types.items())
        return cls(**{
            name: value if type(value) is expected else _read(cls, name, expected, value)
            for name, expected, value in given
        })  # fmt: skip

    @classmethod
    def from_json(cls: type[S], text: str) -> S:
        """The inverse of `to_json`. Raises RequestError for text that is not such a specification."""
        try:
            values = from_json(text)
        except ValueError as error:
            raise RequestError(f"{cls.__name__}: not JSON ({error})") from None
        return cls.from_dict(values)


@functools.cache
def _types(cls: type[Spec]) -> Mapping[str, Any]:
    """The fields' types by name, without what annotations add to them."""
    annotated = {name: hint.__origin__ for name, hint in _hints(cls).items() if typing.get_origin(hint) is Annotated}
    return {**_hints(cls), **annotated}


@functools.cache
def _hints(cls: type[Spec]) -> Mapping[str, Any]:
    """The fields' annotations by name."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in field_names(cls) or ()}


@functools.cache
def _defaults(cls: type[Spec]) -> Mapping[str, Any]:
    """The fields' defaults, of those that have one."""
    return field_defaults(cls)


@functools.cache
def _roles(cls: type[Spec]) -> Mapping[str, Callable[[Any], object] | None]:
    return {name: _role(getattr(hint, "__metadata__", ())) for name, hint in _hints(cls).items()}


@functools.cache
def _decisive(cls: type[Spec]) -> frozenset[str]:
    return frozenset(name for name, of in _roles(cls).items() if of is _whole)


def _role(annotations: tuple[object, ...]) -> Callable[[Any], object] | None:
    if _HOW in annotations:
        return None
    return next((one.of for one in annotations if isinstance(one, Counts)), _whole)


def _whole(value: object) -> object:
    return value


def differences(spec: Spec, wanted: Spec) -> list[Reason]:
    """A reason for every field in which a specification is not the wanted one, of the same type."""
    return [
        Reason(name, getattr(spec, name), "the kernel is another one", f"expected {show(value)}")
        for name, value in vars(wanted).items()
        if value != getattr(spec, name)
    ]


def unlike(spec: Spec, **wanted: object) -> Iterator[Reason]:
    """A reason for every named field that has not the wanted value; None wants nothing."""
    for field, value in wanted.items():
        if value is not None and (given := getattr(spec, field)) != value:
            yield Reason(field, given, "the kernel is another one", f"expected {show(value)}")


def by(lengths: tuple[int, ...]) -> str:
    """Lengths as the command line writes them: `128x128x64`."""
    return "x".join(map(str, lengths))


def not_a_choice(spec: Spec, **choices: Collection[object]) -> Iterator[Reason]:
    """A reason for every named field whose value is not among its choices."""
    for field, allowed in choices.items():
        value = getattr(spec, field)
        if value not in allowed:
            yield Reason(field, value, "not a choice", f"expected {'|'.join(map(str, allowed))}")


def no_such_float(field: str, dtype: str, target: Target, right: str = "it starts with gfx942") -> Iterator[Reason]:
    """A reason where a field is an 8-bit float, and the chip has none."""
    if dtype in EIGHT_BIT_FLOATS and target.fp8 is None:
        yield Reason(field, dtype, f"{target.name} has no 8-bit floating point", right)


def not_all_choices(spec: Spec, **choices: Collection[object]) -> Iterator[Reason]:
    """A reason for every named field of several entries of which one is not among their choices."""
    for field, allowed in choices.items():
        value = getattr(spec, field)
        unknown = next((entry for entry in value if entry not in allowed), None)
        if unknown is not None:
            right = f"expected {'|'.join(map(str, allowed))}"
            yield Reason(field, value, f"{show(unknown)!r} is not a choice", right)


def not_positive(spec: Spec, *fields: str) -> Iterator[Reason]:
    """A reason for every field that holds a number below 1."""
    for field in fields:
        value = getattr(spec, field)
        if min(value if isinstance(value, tuple) else (value,)) < 1:
            yield Reason(field, value, "nothing is made of no elements", "expected 1 or more")


def not_powers_of_two(spec: Spec, *fields: str) -> Iterator[Reason]:
    """A reason for every field that holds something else than powers of two, which tiles are made of."""
    for field in fields:
        value = getattr(spec, field)
        for number in value if isinstance(value, tuple) else (value,):
            if number < 1 or number & (number - 1):
                yield Reason(field, value, f"{number} is not a power of two", "expected 1, 2, 4, 8, …")
                break


_arguments = functools.cache(typing.get_args)


def _read(cls: type[Spec], name: str, expected: Any, value: object) -> object:
    """A field's value of its annotated type, from JSON's types."""
    if type(value) is expected:
        return value
    arguments = _arguments(expected)
    if len(arguments) == 2 and arguments[1] is Ellipsis and isinstance(value, (list, tuple)):
        arguments = arguments[:1] * len(value)  # any number of them
        if not arguments:
            return ()
    if arguments and isinstance(value, (list, tuple)) and len(value) == len(arguments):
        return tuple(_read(cls, name, part, item) for part, item in zip(arguments, value, strict=True))
    what = f"{len(arguments)} whole numbers" if arguments else expected.__name__
    raise RequestError(f"{cls.__name__}: {name}={as_json(value)}: expected {what}")
