"""A graph of coordinate transforms from the dimensions that a user sees (top) down to those of storage (bottom).

Dimensions are numbered as they come into being: the bottom ones first, then the upper ones of each step. A step maps
its upper dimensions to lower ones that exist already, so that walking the steps backwards turns a top index into a
bottom one. How graphs are made from one another is in `adaptor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from math import lcm
from operator import and_
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from ckmlir.dialect.symbols import Expression, Size, Symbol
from ckmlir.dialect.transform_base import Index, Transform
from ckmlir.dialect.transforms import Indexing

Self = TypeVar("Self", bound="TransformGraph")


class Step(Struct, frozen=True):
    """One transform with the numbers of its lower and upper dimensions."""

    transform: Transform
    lowers: tuple[int, ...]
    uppers: tuple[int, ...]


class TransformGraph(Struct, frozen=True, dict=True):
    """`bottom_lengths` (None: unbounded), the `steps` over them, and the numbers `tops` of the dimensions on top."""

    bottom_lengths: tuple[Size | None, ...]
    steps: tuple[Step, ...]
    tops: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of top dimensions."""
        return len(self.tops)

    @cached_property
    def lengths(self) -> tuple[Size, ...]:
        """Lengths of the top dimensions.

        Raises:
            ValueError: a top dimension is an unbounded bottom one.
        """
        all_lengths = self._lengths
        lengths = []
        for top in self.tops:
            length = all_lengths[top]
            if length is None:
                raise ValueError("a dimension of unknown length is still visible; transform it first")
            lengths.append(length)
        return tuple(lengths)

    @cached_property
    def _lengths(self) -> tuple[Size | None, ...]:
        lengths: list[Size | None] = list(self.bottom_lengths)
        for step in self.steps:
            lengths.extend(step.transform.upper_lengths)
        return tuple(lengths)

    @cached_property
    def symbol_multiples(self) -> Mapping[int, int]:
        """The run-time values in use, each with the number that it is known to be a multiple of."""
        found: dict[int, int] = {}
        for symbol in _symbols(self):
            known = found.get(symbol.index, 1)
            found[symbol.index] = lcm(known, symbol.multiple)
        return dict(sorted(found.items()))

    def with_multiples(self: Self, multiples: Mapping[int, int]) -> Self:
        """The same with run-time values known to be multiples of the numbers given, by number of the value."""
        known = {number: Symbol(number, multiple) for number, multiple in multiples.items()}
        if all(known.get(one.index, one) == one for one in _symbols(self)):
            return self

        def visit(size: Any) -> Any:
            if isinstance(size, Symbol):
                return known.get(size.index, size)
            if isinstance(size, tuple):
                return tuple(map(visit, size))
            if isinstance(size, Expression):
                return Expression(size.operator, visit(size.left), visit(size.right))
            return size

        steps = tuple(
            replace(step, transform=replace(step.transform, **{
                name: visit(value) for name, value in asdict(step.transform).items()}))
            for step in self.steps
        )  # fmt: skip
        return replace(self, steps=steps, bottom_lengths=visit(self.bottom_lengths))

    @property
    def symbol_count(self) -> int:
        """How many run-time values must be bound."""
        return max(self.symbol_multiples, default=-1) + 1

    @cached_property
    def tables(self) -> frozenset[int]:
        """The numbers of those run-time values that are tables, not integers."""
        return frozenset(step.transform.table.index for step in self.steps if isinstance(step.transform, Indexing))

    # -- mapping

    def evaluate(
        self, index: Sequence[Any], symbols: Sequence[Any] = (), known: Mapping[tuple[int, ...], Index] | None = None
    ) -> list[Any]:
        """The values of all dimensions, by number, for the top index: the bottom ones come first. `known`: the
        lower dimensions of steps, by the numbers of their upper ones, where they need not be found.

        Raises:
            ValueError: the index has the wrong number of dimensions, or a run-time value is missing.
        """
        if len(index) != self.rank:
            raise ValueError(f"an index of {len(index)} dimensions into a view of {self.rank}")
        values: list[Any] = [None] * (len(self.bottom_lengths) + sum(len(step.uppers) for step in self.steps))
        for top, value in zip(self.tops, index, strict=True):
            values[top] = value
        for step in reversed(self.steps):
            lower = known.get(step.uppers) if known else None
            if lower is None:
                lower = step.transform.lower(tuple(values[upper] for upper in step.uppers), symbols)
            for dim, value in zip(step.lowers, lower, strict=True):
                values[dim] = value
        return values

    def lower(self, index: Sequence[Any], symbols: Sequence[Any] = ()) -> Index:
        """The bottom index of the top index."""
        return tuple(self.evaluate(index, symbols)[: len(self.bottom_lengths)])

    def predicates(self) -> tuple[Step, ...]:
        """The steps whose transform is not valid everywhere; `evaluate` gives the values of their upper dimensions."""
        return self._predicates

    @cached_property
    def _predicates(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.transform.always_valid)

    def valid(self, index: Sequence[Any], symbols: Sequence[Any] = ()) -> Any:
        """Whether the element at the top index exists in storage (True when it always does)."""
        predicates = self.predicates()
        if not predicates:
            return True
        values = self.evaluate(index, symbols)
        return reduce(
            and_, (step.transform.valid(tuple(values[u] for u in step.uppers), symbols) for step in predicates)
        )

    def upper(self, bottom: Sequence[Any], symbols: Sequence[Any] = ()) -> Index:
        """The top index of a bottom index: the inverse of `lower`.

        Raises:
            NotInvertible: a transform on the way has no inverse, or storage does not determine a top dimension.
        """
        if len(bottom) != len(self.bottom_lengths):
            raise ValueError(f"a bottom index of {len(bottom)} dimensions; there are {len(self.bottom_lengths)}")
        values = list(bottom)
        for step in self.steps:
            values.extend(step.transform.upper(tuple(values[dim] for dim in step.lowers), symbols))
        return tuple(values[top] for top in self.tops)

    def dependents(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The positions of the top dimensions that the dimensions numbered `dims` are computed from."""
        reached = set(dims)
        for step in self.steps:
            if reached.intersection(step.lowers):
                reached.update(step.uppers)
        return tuple(position for position, top in enumerate(self.tops) if top in reached)


def _symbols(graph: TransformGraph) -> list[Symbol]:
    found: list[Symbol] = []

    def visit(size: Any) -> None:
        if isinstance(size, Symbol):
            found.append(size)
        elif isinstance(size, tuple):
            for item in size:
                visit(item)
        elif not isinstance(size, int) and size is not None:
            visit((size.left, size.right))

    visit(graph.bottom_lengths)
    for step in graph.steps:
        for name in step.transform.__struct_fields__:
            visit(getattr(step.transform, name))
    return found
