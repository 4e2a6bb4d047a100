"""Parts of the loop over queries of attention backward: masks, and where dQ goes."""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.lang import Pointer, Scalar, Tile, View, atomic_add, coordinates, store, view, where
from ckmlir.ops.attention.backward_loop_kernel import Form, Span


@dataclass(frozen=True)
class Causal:
    """Key j is attended to by queries behind j - x.

    Attributes:
        first: the block's first key.
    """

    first: Scalar
    x: Scalar

    def apply(self, weights: Tile, query: Scalar) -> Tile:
        """See `backward_loop_kernel.WeightPart`."""
        last_without = coordinates(weights, 0) + (self.first - self.x - query)
        return where(coordinates(weights, 1) > last_without, weights, 0.0)


@dataclass(frozen=True)
class Window:
    """Key j is attended to by queries behind j - x and before j + y."""

    first: Scalar
    x: Scalar
    y: Scalar

    def apply(self, weights: Tile, query: Scalar) -> Tile:
        """See `backward_loop_kernel.WeightPart`: one comparison without signs."""
        distance = coordinates(weights, 1) - coordinates(weights, 0) + (query - self.first + self.x - 1)
        length = (self.x + self.y - 1).maximum(0)
        return where(distance.below(length), weights, 0.0)


def spans(form: Form, mask: str, first: Scalar, sq: Scalar, y: Scalar | None, x: Scalar | None) -> list[Span]:
    """The queries, in whole blocks, that attend to some key of the block that begins at `first`, those that attend to
    all of them apart where a mask has only one side.

    Args:
        mask: none, causal or window; y, x: the mask's coordinate (`masks.py`) but with none.
    """
    if mask == "none" or x is None or y is None:
        return [Span(0, sq, [])]
    low = (first - x + 1).maximum(0) // form.queries * form.queries
    if mask == "window":
        return [Span(low, sq.minimum(first + (form.keys - 1) + y), [Window(first, x, y)])]
    every = (first + (form.keys + form.queries - 1) - x).maximum(0) // form.queries * form.queries
    middle = every.maximum(low).minimum(sq)
    return [Span(low, middle, [Causal(first, x)]), Span(middle, sq, [])]


@dataclass(frozen=True)
class Atomic:
    """dQ in f32, to which every block of keys adds its part.

    Attributes:
        pointer: the head's first row; rows have `channels` elements and follow each other.
        rows: of the head.
    """

    form: Form
    pointer: Pointer
    rows: Scalar
    channels: int

    def put(self, dq: Tile, query: Scalar) -> None:
        """See `backward_loop_kernel.Sink`."""
        atomic_add(dq, self.block(query).window(dq.lengths, (0, 0)))

    def block(self, query: Scalar) -> View:
        """The rows from a query on. The step goes into the base, so that lanes' offsets stay what they are."""
        start = self.pointer.offset(query.to("i64") * self.channels)
        return view(start, (self.rows - query, self.channels), (self.channels, 1)).pad(self.form.queries, self.form.d)


@dataclass(frozen=True)
class Slot(Atomic):
    """The part of one block of keys alone; what the parts sum up to is the next kernel's."""

    def put(self, dq: Tile, query: Scalar) -> None:
        """See `backward_loop_kernel.Sink`."""
        store(dq, self.block(query).window(dq.lengths, (0, 0)))
