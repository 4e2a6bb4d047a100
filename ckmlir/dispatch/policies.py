"""Who chooses among the kernels that compute a problem.

A policy is called with a query and the kernels that fit, in the registry's order: a sequence of which each is looked
for when it is asked for (`fitting.Fitting`). It returns those that it would take, the best first: kernels or
identifiers, one or several; or nothing, which leaves the choice to the next policy. Any callable will do. Those here
are data, so that they can be printed, compared and sent to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ckmlir.dispatch.fitting import Fitting
from ckmlir.dispatch.identity import Kernel
from ckmlir.errors import as_annotated, check_fields, suggest
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import AUTO, Key, RequestError
from ckmlir.targets import Target


class Query(Struct, frozen=True):
    """What a kernel is wanted for.

    Attributes:
        keys: of the request, as the operator reads them, those that were given.
    """

    operator: Operator[Any, Any]
    problem: Any
    target: Target
    keys: Mapping[str, object]

    def __post_init__(self) -> None:
        check_fields(self, RequestError)

    @as_annotated(RequestError)
    def value(self, name: str) -> object:
        """What a key is, as the operator reads it, or its default. Raises RequestError for one that it has not."""
        return read_key(self.operator, name, self.keys.get(name))


Answer = Kernel | str | Iterable[Kernel | str] | None
Policy = Callable[[Query, Fitting], Answer]
"""Anything that is called with a query and the kernels that fit, and names those it would take, the best first."""


def name_of(policy: Policy) -> str:
    """What a policy is called when it is said which one decided."""
    name = getattr(policy, "name", None) or getattr(policy, "__name__", None)
    return str(name or type(policy).__name__)


class FirstFit(Struct, frozen=True):
    """The first in the registry's order: by priority, then by when it was added."""

    name: str = "first fit"

    def __call__(self, query: Query, fitting: Fitting) -> Answer:
        return fitting


class OperatorsChoice(Struct, frozen=True):
    """The best by the operator's own rules, among the kernels that it considers for the problem (`candidates`)."""

    name: str = "the operator's choice"

    def __call__(self, query: Query, fitting: Fitting) -> Answer:
        operator, target = query.operator, query.target
        considered = (Kernel(operator, spec, target) for spec in operator.candidates(query.problem, target))
        return (kernel for kernel in considered if kernel in fitting)


class SizeBuckets(Struct, frozen=True):
    """The kernel whose tile is the smallest that takes a size at once; where none does, the largest.

    So CK Tile's dispatcher chooses the rows of attention's blocks.

    Attributes:
        key: of the request, a size.
        field: of the specification, the tile; `place` says which number of it.
        operator: whose requests it is for; others it leaves to the next policy. None: all of the dispatcher's operators
            have the key.
    """

    key: str
    field: str = "block"
    place: int = 0
    name: str = "size buckets"
    operator: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, RequestError)

    def __call__(self, query: Query, fitting: Fitting) -> Answer:
        if self.operator not in (None, query.operator.name):
            return None
        size = query.value(self.key)
        if not isinstance(size, int):
            return None
        wanted = size
        tiles = SizeBuckets, self.field, self.place
        return fitting.best(tiles, self._tile, lambda tile: (tile < wanted, abs(tile - wanted)))

    def _tile(self, kernel: Kernel) -> int | None:
        """The tile's size; None if the specification lacks the field. Raises RequestError if it is not a size."""
        value = getattr(kernel.spec, self.field, None)
        if isinstance(value, tuple):
            if not 0 <= self.place < len(value):
                known = f"expected a place from 0 to {len(value) - 1}"
                raise RequestError(f"{self.name}: {kernel} has no place {self.place} of {self.field} {value}; {known}")
            value = value[self.place]
        if value is None or type(value) is int:
            return value
        raise RequestError(f"{self.name}: {self.field} of {kernel} is {value!r}, expected a size")


class Table:
    """Kernels by request, as tuning finds them. The request is all keys, as read, that are not their defaults.

    Attributes:
        rows: the request -> the identifier, of a kernel that has to be there; or several, the best first, of which the
            first is taken that there is.
    """

    name = "tuned table"

    @as_annotated(RequestError)
    def __init__(self, rows: Mapping[tuple[object, ...], str | Sequence[str]]) -> None:
        self.rows = dict(rows)

    def __call__(self, query: Query, fitting: Fitting) -> Answer:
        row = self.rows.get(request_of(query.operator, query.keys, query.target))
        if row is None or isinstance(row, str):
            return row
        return fitting.named(row)

    def knows(self, query: Query) -> bool:
        """Whether there is a row for a request."""
        return request_of(query.operator, query.keys, query.target) in self.rows


@as_annotated(RequestError)
def request_of(operator: Operator[Any, Any], keys: Mapping[str, object], target: Target) -> tuple[object, ...]:
    """A request as a value to look up: the operator, the chip, and every key that is not its default, as it is read.

    Two requests that say the same in other words are equal. Raises RequestError as `Operator.problem`.
    """
    return (operator.name, target.name, *given_keys(operator, keys).items())


def given_keys(operator: Operator[Any, Any], keys: Mapping[str, object]) -> dict[str, str]:
    """The keys that are not their defaults, as text, sorted by name. Raises RequestError as `read_key`."""
    given = {}
    for name in sorted(keys):
        read, key = read_key(operator, name, keys[name]), key_of(operator, name)
        if read != key.default:
            given[name] = key.text(read)
    return given


def read_key(operator: Operator[Any, Any], name: str, value: object) -> object:
    """A key's value as the operator reads it; None and "auto" are its default. Raises RequestError."""
    key = key_of(operator, name)
    is_open = value is None or (isinstance(value, str) and value == AUTO)
    return key.default if is_open else key.read(value)


def key_of(operator: Operator[Any, Any], name: str) -> Key:
    """An operator's key. Raises RequestError for one that it has not."""
    found = next((key for key in operator.keys if key.name == name), None)
    if found is None:
        raise RequestError(f"{operator.name} has no key {name}; {suggest(name, [key.name for key in operator.keys])}")
    return found
