"""Parts of the loop over queries of attention backward: masks, and where dQ goes."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.lang import Pointer, Scalar, Tile, View, atomic_add, coordinates, store, view, where
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.backward.loop_kernel import Form, MaskPart, Span, wide
from ckmlir.ops.attention.loop.spans_kernel import coordinate
from ckmlir.ops.attention.loop.work_kernel import Work


class Causal(Struct, frozen=True):
    """Key j is attended to by queries behind j - x.

    A query's distance from a key is compared with limits that are scalars, so that one number of a lane changes with
    a step, and elements are compared with constants.

    Attributes:
        first: the block's first key.
    """

    first: Scalar
    x: Scalar

    def at(self, first: Scalar) -> MaskPart:
        """See `loop_kernel.MaskPart`."""
        return replace(self, first=first)

    def apply(self, tile: Tile, query: Amount, other: float) -> Tile:
        """See `loop_kernel.MaskPart`."""
        return where(self.attends(tile, query), tile, other)

    def attends(self, tile: Tile, query: Amount) -> Tile:
        """Whether each query attends to each key."""
        found: Tile = distance(tile) >= self.first - self.x + 1 - query
        return found


class Window(Causal, frozen=True):
    """Key j is attended to by queries behind j - x and before j + y."""

    y: Scalar

    def attends(self, tile: Tile, query: Amount) -> Tile:
        """See `Causal`."""
        found: Tile = super().attends(tile, query) & self.is_before(tile, query)
        return found

    def is_before(self, tile: Tile, query: Amount) -> Tile:
        """Whether each query is before j + y."""
        found: Tile = distance(tile) < self.first + self.y - query
        return found


class Sinks(Window, frozen=True):
    """The same, but to the first `sinks` keys all queries behind j - x attend."""

    sinks: Scalar

    def is_before(self, tile: Tile, query: Amount) -> Tile:
        """See `Window`."""
        found: Tile = super().is_before(tile, query) | (coordinates(tile, 0) < self.sinks - self.first)
        return found


def distance(tile: Tile) -> Tile:
    """How far each query is behind each key, both counted from the beginnings of their blocks."""
    found: Tile = coordinates(tile, 1) - coordinates(tile, 0)
    return found


class Attending(Protocol):
    """Which queries attend to the work's block of keys.

    Attributes:
        masks: what hides those that do not, wherever the block is.
        spans: the queries, in whole blocks, that attend to some key of it.
    """

    @property
    def masks(self) -> list[MaskPart]: ...

    @property
    def spans(self) -> list[Span]: ...

    def attended(self, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
        """Of the keys from `low` to `high` those that some query attends to, in whole blocks from `low` on.

        Without queries the range is empty: rows beside them are filled with zeros, which times V may be NaN.
        """


ONE_RANGE = ("causal", "window")
"""Masks under which keys that some query attends to follow each other."""


class Masked(Struct, frozen=True):
    """Those that the mask of a specification leaves; `given` has the kernel's arguments."""

    spec: FmhaBwdSpec
    given: Any
    form: Form
    work: Work

    @property
    def masks(self) -> list[MaskPart]:
        """See `Attending`."""
        first, mask = self.work.first, self.spec.mask
        if mask == "none":
            return []
        y, x = self._coordinate
        if mask == "causal":
            return [Causal(first, x)]
        return [Window(first, x, y) if mask == "window" else Sinks(first, x, y, self.given.mask_sink)]

    def attended(self, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
        """See `Attending`."""
        form, sq = self.form, self.work.sq
        high = (sq > 0).select(high, low)
        if self.spec.mask not in ONE_RANGE:
            return low, high
        y, x = self._coordinate
        first = low
        if self.spec.mask == "window":
            first = low + (1 - y - low).maximum(0) // form.keys * form.keys
        last = high.minimum(sq - 1 + x)
        return first, first + ((last - first).maximum(0) + (form.keys - 1)) // form.keys * form.keys

    @property
    def spans(self) -> list[Span]:
        """See `Attending`; those that attend to all keys of the block apart where a mask has only one side."""
        form, first, sq, mask = self.form, self.work.first, self.work.sq, self.spec.mask
        if mask == "none":
            return [Span(0, sq, [])]
        y, x = self._coordinate
        cut = self.masks
        low = (first - x + 1).maximum(0) // form.queries * form.queries
        high = sq.minimum(first + (form.keys - 1) + y)
        if mask == "window":
            return [Span(low, high, cut)]
        if mask == "sinks":
            return [Span(low, (first < self.given.mask_sink).select(sq, high), cut)]
        every = (first + (form.keys + form.queries - 1) - x).maximum(0) // form.queries * form.queries
        middle = every.maximum(low).minimum(sq)
        return [Span(low, middle, cut), Span(middle, sq, [])]

    @property
    def _coordinate(self) -> tuple[Scalar, Scalar]:
        return coordinate(self.spec.varied, self.given, self.work)


class Atomic(Struct, frozen=True):
    """dQ in f32, to which every block of keys adds its part.

    Attributes:
        pointer: the head's first row; rows have `channels` elements and follow each other.
        rows: of the head.
    """

    form: Form
    pointer: Pointer
    rows: Scalar
    channels: int

    def put(self, tile: Tile, query: Amount) -> None:
        """See `loop_kernel.Sink`."""
        atomic_add(tile, self.block(query).window(tile.lengths, (0, 0)))

    def block(self, query: Amount) -> View:
        """The rows from a query on. The step goes into the base, so that lanes' offsets stay what they are."""
        start = self.pointer.offset(wide(query) * self.channels)
        return view(start, (self.rows - query, self.channels), (self.channels, 1)).pad(self.form.queries, self.form.d)


class Slot(Atomic, frozen=True):
    """The part of one block of keys alone; what the parts sum up to is the next kernel's."""

    def put(self, tile: Tile, query: Amount) -> None:
        """See `loop_kernel.Sink`."""
        store(tile, self.block(query).window(tile.lengths, (0, 0)))
