"""Shares: which of the keys that a block of queries attends to are a workgroup's."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.lang import Pointer, Scalar, Tile, where
from ckmlir.ops.attention.loop.loop_kernel import Span


class Share:
    """All of them."""

    def narrowed(self, span: Span, keys: int) -> Span:
        """The share's steps of a span over blocks of `keys`."""
        return span

    def once(self, value: Tile, otherwise: float) -> Tile:
        """Values (f32) in one share of a block of queries, `otherwise` in the others."""
        return value

    def place(self, name: str, pointer: Pointer) -> Pointer:
        """Where what is the share's of an array begins."""
        return pointer


class Part(Share, Struct, frozen=True):
    """One of several runs of whole blocks, all but the last ones as long; some may be empty.

    Attributes:
        number: which; count: of how many.
        distances: elements (i64) from one share's results to the next one's, by the names of the arrays.
    """

    number: Scalar
    count: Scalar
    distances: Mapping[str, Scalar]

    def narrowed(self, span: Span, keys: int) -> Span:
        """See `Share`. Each share has as many of the span's own blocks, whatever the mask has left of the keys."""
        assert isinstance(span.high, Scalar)  # it depends on a length
        blocks = (span.high - span.low + (keys - 1)).maximum(0) // keys
        length = (blocks + (self.count - 1)) // self.count * keys
        low = self.number * length + span.low
        return replace(span, low=low, high=(low + length).minimum(span.high))

    def once(self, value: Tile, otherwise: float) -> Tile:
        """See `Share`: the first has it, with keys or without."""
        return where(self.number.equals(0), value, otherwise)

    def place(self, name: str, pointer: Pointer) -> Pointer:
        """See `Share`."""
        distance = self.distances.get(name)
        return pointer if distance is None else pointer.offset(self.number.to("i64") * distance)


ALL = Share()
