"""How a wave of one workgroup goes over sequences: their lengths by tiles, and sums of what they cost."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Pointer,
    Scalar,
    Tile,
    Window,
    coordinates,
    full,
    load,
    scan_sum,
    store,
    view,
    where,
)
from ckmlir.targets.cdna import WAVE_SIZE

VECTOR = 4
TILE = WAVE_SIZE * VECTOR
"""Sequences that a wave looks at at once."""
LIES = Distribution.parse(f"d0: {WAVE_SIZE}@lane {VECTOR}@y0")
ONE = LIES.expand(0, 1).reduce(1)
"""One element that every lane has."""


class SequenceTile(Struct, frozen=True):
    """The sequences from `first` on, `TILE` of them.

    Attributes:
        given: the kernel's arguments: count, the sequences; sq and sk, the most queries and keys of one; and the lists
            of `sequences.Rows` as `words` have them.
    """

    given: Any
    words: tuple[str, str]
    first: Scalar

    def lengths(self) -> tuple[Tile, Tile]:
        """Queries and keys (i32); behind the last sequence there are none of either."""
        queries, keys = (self._of_side(side, word) for side, word in zip("qk", self.words, strict=True))
        exists = coordinates(queries, 0) < self.given.count - self.first
        return where(exists, queries, 0), where(exists, keys, 0)

    def put(self, pointer: Pointer, tile: Tile, count: Scalar) -> None:
        """Store these sequences' numbers of a list of so many."""
        store(tile, self._window(pointer, count))

    def before(self, costs: Tile, total: Scalar) -> Tile:
        """What the sequences in front of each cost; `total` of those in front of the tile."""
        sums: Tile = scan_sum(costs, 0, exclusive=True) + total
        return sums

    def _of_side(self, side: str, word: str) -> Tile:
        if "length" in word:
            return self._loaded(getattr(self.given, f"seqlen_{side}"))
        if "start" in word:
            starts = getattr(self.given, f"seqstart_{side}")
            lengths: Tile = self._loaded(starts.offset(1)) - self._loaded(starts)
            return lengths
        return full((TILE,), getattr(self.given, f"s{side}"), "i32", LIES)

    def _loaded(self, pointer: Pointer) -> Tile:
        found: Tile = load(self._window(pointer, self.given.count), LIES)
        return found

    def _window(self, pointer: Pointer, count: Scalar) -> Window:
        return view(pointer, (count,), (1,)).pad(TILE).window((TILE,), (self.first,))


def put_one(pointer: Pointer, number: Scalar) -> None:
    """Store one number (i32)."""
    store(full((1,), number, "i32", ONE), view(pointer, (1,), (1,)).window((1,), (0,)))
