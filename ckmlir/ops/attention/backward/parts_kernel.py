"""Parts of the loop over queries of attention backward: masks, and where dQ goes."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.lang import Pointer, Scalar, Tile, View, atomic_add, coordinates, store, view, where
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.backward.loop_kernel import Form, Span, WeightPart, wide
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

    def at(self, first: Scalar) -> WeightPart:
        """See `loop_kernel.WeightPart`."""
        return replace(self, first=first)

    def apply(self, weights: Tile, query: Amount) -> Tile:
        """See `loop_kernel.WeightPart`."""
        return where(self.attends(weights, query), weights, 0.0)

    def attends(self, weights: Tile, query: Amount) -> Tile:
        """Whether each query attends to each key."""
        found: Tile = _distance(weights) >= self.first - self.x + 1 - query
        return found


class Window(Causal, frozen=True):
    """Key j is attended to by queries behind j - x and before j + y."""

    y: Scalar

    def attends(self, weights: Tile, query: Amount) -> Tile:
        """See `Causal`."""
        found: Tile = super().attends(weights, query) & self.is_before(weights, query)
        return found

    def is_before(self, weights: Tile, query: Amount) -> Tile:
        """Whether each query is before j + y."""
        found: Tile = _distance(weights) < self.first + self.y - query
        return found


class Sinks(Window, frozen=True):
    """The same, but to the first `sinks` keys all queries behind j - x attend."""

    sinks: Scalar

    def is_before(self, weights: Tile, query: Amount) -> Tile:
        """See `Window`."""
        found: Tile = super().is_before(weights, query) | (coordinates(weights, 0) < self.sinks - self.first)
        return found


def _distance(weights: Tile) -> Tile:
    """How far each query is behind each key, both counted from the beginnings of their blocks."""
    found: Tile = coordinates(weights, 1) - coordinates(weights, 0)
    return found


def mask_parts(spec: FmhaBwdSpec, given: Any, work: Work) -> list[WeightPart]:
    """What the mask does to weights of the work's block of keys, wherever it may cut."""
    if spec.mask == "none":
        return []
    y, x = coordinate(spec.varied, given, work)
    if spec.mask == "causal":
        return [Causal(work.first, x)]
    return [Window(work.first, x, y) if spec.mask == "window" else Sinks(work.first, x, y, given.mask_sink)]


ONE_RANGE = ("causal", "window")
"""Masks under which keys that some query attends to follow each other."""


def attended(spec: FmhaBwdSpec, given: Any, form: Form, work: Work, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    """Of the keys from `low` to `high` those that some query attends to, in whole blocks from `low` on.

    Where there are no queries it is none: rows beside them are filled with zeros, which times V may be NaN.
    """
    high = (work.sq > 0).select(high, low)
    if spec.mask not in ONE_RANGE:
        return low, high
    y, x = coordinate(spec.varied, given, work)
    first = low
    if spec.mask == "window":
        first = low + (1 - y - low).maximum(0) // form.keys * form.keys
    last = high.minimum(work.sq - 1 + x)
    return first, first + ((last - first).maximum(0) + (form.keys - 1)) // form.keys * form.keys


def spans(spec: FmhaBwdSpec, given: Any, form: Form, work: Work) -> list[Span]:
    """The queries, in whole blocks, that attend to some key of the work's block, those that attend to all of them apart
    where a mask has only one side."""
    first, sq = work.first, work.sq
    if spec.mask == "none":
        return [Span(0, sq, [])]
    y, x = coordinate(spec.varied, given, work)
    cut = mask_parts(spec, given, work)
    low = (first - x + 1).maximum(0) // form.queries * form.queries
    high = sq.minimum(first + (form.keys - 1) + y)
    if spec.mask == "window":
        return [Span(low, high, cut)]
    if spec.mask == "sinks":
        return [Span(low, (first < given.mask_sink).select(sq, high), cut)]
    every = (first + (form.keys + form.queries - 1) - x).maximum(0) // form.queries * form.queries
    middle = every.maximum(low).minimum(sq)
    return [Span(low, middle, cut), Span(middle, sq, [])]


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
