"""Adaptors: graphs of coordinate transforms, made from one another by adding a transform on top.

Adaptors are values: frozen, hashable, and every method that changes something returns a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from ckmlir.dialect.padding import Pad, RightPad
from ckmlir.dialect.symbols import Size, Symbol
from ckmlir.dialect.transform_base import Transform
from ckmlir.dialect.transform_graph import Step, TransformGraph
from ckmlir.dialect.transforms import (
    Freeze,
    Indexing,
    Insert,
    Merge,
    Modulo,
    Offset,
    PassThrough,
    Replicate,
    Reverse,
    Slice,
    Unmerge,
    Xor,
)

Self = TypeVar("Self", bound="Adaptor")


class Adaptor(TransformGraph, frozen=True, dict=True):
    """A graph of transforms with the methods that put another transform on top."""

    def transform(
        self: Self,
        transforms: Sequence[Transform],
        lower_ids: Sequence[Sequence[int]],
        upper_ids: Sequence[Sequence[int]],
    ) -> Self:
        """New top dimensions through `transforms`: the i-th takes the tops `lower_ids[i]` and makes the new tops
        `upper_ids[i]`.

        Raises:
            ValueError: a top dimension is not used exactly once, a new position is not given exactly once, or a
                transform does not fit the number or the lengths of its dimensions.
        """
        if not len(transforms) == len(lower_ids) == len(upper_ids):
            raise ValueError(
                f"{len(transforms)} transforms with {len(lower_ids)} lower and {len(upper_ids)} upper id lists"
            )
        _exactly_once([dim for ids in lower_ids for dim in ids], self.rank, "dimension")
        rank = sum(len(ids) for ids in upper_ids)
        _exactly_once([dim for ids in upper_ids for dim in ids], rank, "new dimension")
        lengths, steps = list(self._lengths), list(self.steps)
        tops = [-1] * rank
        for transform, lowers, uppers in zip(transforms, lower_ids, upper_ids, strict=True):
            dims = tuple(self.tops[lower] for lower in lowers)
            _check_fit(transform, [lengths[dim] for dim in dims], len(uppers))
            if isinstance(transform, PassThrough):
                tops[uppers[0]] = dims[0]
                continue
            created = tuple(range(len(lengths), len(lengths) + len(uppers)))
            for dim, upper in zip(created, uppers, strict=True):
                tops[upper] = dim
            lengths.extend(transform.upper_lengths)
            steps.append(Step(transform, dims, created))
        return replace(self, steps=tuple(steps), tops=tuple(tops))

    def apply(self: Self, transform: Transform, dims: Sequence[int], position: int | None = None) -> Self:
        """The top dimensions `dims` through one transform; its upper ones stand at `position` (where the first was)."""
        if not all(0 <= dim < self.rank for dim in dims):
            raise ValueError(
                f"{transform.name} of dimensions {list(dims)}: a view of {self.rank} has 0 to {self.rank - 1}"
            )
        position = (dims[0] if dims else self.rank) if position is None else position
        kept = [dim for dim in range(self.rank) if dim not in dims]
        _exactly_once([*dims, *kept], self.rank, "dimension")
        if kept:
            _ = self.lengths  # raises where a dimension is of unknown length
        known, count = self._lengths, transform.upper_count
        lowers, first = tuple(self.tops[dim] for dim in dims), len(known)
        _check_fit(transform, [known[dim] for dim in lowers], count)
        created = tuple(range(first, first + count))
        before = [self.tops[dim] for dim in kept if dim < position]
        behind = [self.tops[dim] for dim in kept if dim >= position]
        found = replace(self, steps=(*self.steps, Step(transform, lowers, created)), tops=(*before, *created, *behind))
        vars(found)["_lengths"] = (*known, *transform.upper_lengths)  # found once, not for each transform on top
        return found

    def pad(self: Self, dim: int, left: Size, right: Size) -> Self:
        """`left` invalid indices before and `right` after dimension `dim`."""
        return self.apply(Pad(self._length(dim), left, right), (dim,))

    def right_pad(self: Self, dim: int, amount: Size) -> Self:
        """`amount` invalid indices after dimension `dim`."""
        return self.apply(RightPad(self._length(dim), amount), (dim,))

    def right_pad_to_multiple(self: Self, multiples: Sequence[int]) -> Self:
        """Each dimension padded up to a multiple (of the tile's length).

        One that is known to be such a multiple is padded by nothing, but bounded: a window that starts in between still
        leaves no element outside. No window begins behind the padded end.
        """
        if len(multiples) != self.rank:
            raise ValueError(f"{len(multiples)} multiples for a view of {self.rank} dimensions")
        padded = self
        for dim, (length, multiple) in enumerate(zip(self.lengths, multiples, strict=True)):
            if multiple < 1:
                raise ValueError(f"dimension {dim} cannot be padded to a multiple of {multiple}")
            padded = padded.apply(RightPad(length, multiple=multiple), (dim,))
        return padded

    def slice(self: Self, dim: int, begin: Size, end: Size) -> Self:
        """Indices `begin` up to, not including, `end` of dimension `dim`."""
        return self.apply(Slice(self._length(dim), begin, end), (dim,))

    def offset_by(self: Self, dim: int, amount: Size, length: Size) -> Self:
        """Dimension `dim` starting at `amount`, `length` long."""
        return self.apply(Offset(length, amount), (dim,))

    def freeze(self: Self, dim: int, index: Size) -> Self:
        """Dimension `dim` fixed at `index`, and no longer visible."""
        return self.apply(Freeze(index), (dim,))

    def insert(self: Self, position: int, length: Size) -> Self:
        """A new dimension of `length` at `position`, along which storage does not change."""
        return self.apply(Insert(length), (), position)

    def replicate(self: Self, position: int, lengths: Sequence[Size]) -> Self:
        """New dimensions of `lengths` at `position`, along which storage does not change."""
        return self.apply(Replicate(tuple(lengths)), (), position)

    def merge(self: Self, dims: Sequence[int]) -> Self:
        """One dimension over `dims`, the last of them the fastest, in the place of the first of them."""
        return self.apply(Merge(tuple(self._length(dim) for dim in dims)), dims)

    def unmerge(self: Self, dim: int, lengths: Sequence[Size]) -> Self:
        """Dimension `dim` split into `lengths`, the last the fastest."""
        return self.apply(Unmerge(tuple(lengths)), (dim,))

    def xor(self: Self, dim: int, by: int) -> Self:
        """Dimension `dim` exclusive-ored with dimension `by` (modulo the length of `dim`, a power of two)."""
        lengths = (self._length(by), self._length(dim))
        rest = [other for other in range(self.rank) if other not in (dim, by)]
        return self.transform(
            [Xor(lengths), *(PassThrough(self._length(other)) for other in rest)],
            [[by, dim], *([other] for other in rest)],
            [[by, dim], *([other] for other in rest)],
        )

    def reverse(self: Self, dim: int) -> Self:
        """A dimension from its end to its beginning."""
        return self.apply(Reverse(self._length(dim)), (dim,))

    def modulo(self: Self, dim: int, length: Size) -> Self:
        """Dimension `dim` as a ring: `length` indices that wrap around."""
        return self.apply(Modulo(self._length(dim), length), (dim,))

    def gather(self: Self, dim: int, length: Size, table: Symbol) -> Self:
        """Dimension `dim` indexed through a table of `length` entries, a run-time value."""
        return self.apply(Indexing(length, table), (dim,))

    def permute(self: Self, order: Sequence[int]) -> Self:
        """New dimension i is the old dimension `order[i]`."""
        _exactly_once(order, self.rank, "dimension")
        return replace(self, tops=tuple(self.tops[dim] for dim in order))

    def chain(self: Self, upper: Adaptor) -> Self:
        """The adaptor `upper` on top of this one: its bottom dimensions are this one's top ones.

        Raises:
            ValueError: the numbers or lengths of the glued dimensions differ.
        """
        if len(upper.bottom_lengths) != self.rank:
            raise ValueError(
                f"an adaptor with {len(upper.bottom_lengths)} bottom dimensions on top of {self.rank} dimensions"
            )
        lengths = self._lengths
        for dim, (top, expected) in enumerate(zip(self.tops, upper.bottom_lengths, strict=True)):
            if _differ(lengths[top], expected):
                raise ValueError(f"dimension {dim} has length {lengths[top]}, the adaptor on top expects {expected}")
        names = dict(enumerate(self.tops))
        steps = list(self.steps)
        for step in upper.steps:
            for old in step.uppers:
                names[old] = len(lengths) + old - len(upper.bottom_lengths)
            rename = tuple(names[dim] for dim in step.lowers), tuple(names[dim] for dim in step.uppers)
            steps.append(Step(step.transform, *rename))
        return replace(self, steps=tuple(steps), tops=tuple(names[top] for top in upper.tops))

    def _length(self, dim: int) -> Size:
        if not 0 <= dim < self.rank:
            raise ValueError(f"there is no dimension {dim}; a view of {self.rank} has 0 to {self.rank - 1}")
        return self.lengths[dim]


def identity(lengths: Sequence[Size]) -> Adaptor:
    """The adaptor whose top dimensions are its bottom ones; what a chain of transforms starts from."""
    return Adaptor(tuple(lengths), (), tuple(range(len(lengths))))


def _exactly_once(dims: Sequence[int], rank: int, what: str) -> None:
    if sorted(dims) != list(range(rank)):
        raise ValueError(f"every {what} from 0 to {rank - 1} must be named exactly once, not {list(dims)}")


def _differ(length: Size | None, expected: Size | None) -> bool:
    return isinstance(length, int) and isinstance(expected, int) and length != expected


def _check_fit(transform: Transform, lengths: Sequence[Size | None], uppers: int) -> None:
    if len(lengths) != transform.lower_count or uppers != transform.upper_count:
        raise ValueError(
            f"{transform.name} makes {transform.upper_count} dimensions of {transform.lower_count}, "
            f"it cannot make {uppers} of {len(lengths)}"
        )
    for length, expected in zip(lengths, transform.lower_lengths, strict=True):
        if _differ(length, expected):
            raise ValueError(f"{transform.name} is written for a length of {expected}, the dimension has {length}")
