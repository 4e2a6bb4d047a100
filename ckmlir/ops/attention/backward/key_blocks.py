"""What the blocks of keys of a sequence cost attention backward, by the queries that attend to them.

Queries and keys of a block are powers of two, so that under a mask both ends of the queries that attend to a block rise
by the same number of steps from each block to the next, until they reach the last query. Sums of them have closed
forms: where a block begins, and what a head costs, take a few operations on integers, on scalars of a kernel or on
arrays, whatever the mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct


def larger(left: Any, right: Any) -> Any:
    """The maximum of integers, arrays, scalars or tiles."""
    if hasattr(left, "maximum"):
        return left.maximum(right)
    return right.maximum(left) if hasattr(right, "maximum") else np.maximum(left, right)


def smaller(left: Any, right: Any) -> Any:
    """Their minimum."""
    if hasattr(left, "minimum"):
        return left.minimum(right)
    return right.minimum(left) if hasattr(right, "minimum") else np.minimum(left, right)


def chosen(condition: Any, holds: Any, otherwise: Any) -> Any:
    """One of two integers or scalars."""
    return condition.select(holds, otherwise) if hasattr(condition, "select") else holds if condition else otherwise


def boundary(cost: Any, begin: Any, end: Any, beside: Any, uncut: Any) -> Any:
    """Where two workgroups meet that would do so at a cost behind a step of a block from `begin` to `end`: at its
    begin, if the first would have no step of it, at its end, if it costs no more than blocks that stay `uncut`, or
    there. So whether a block is begun depends on nothing behind its begin."""
    return chosen(cost - begin <= beside, begin, chosen(end - begin <= uncut, end, cost))


def steps_of(queries: Any, block: tuple[int, int]) -> Any:
    """How many steps a block of keys has to which all queries attend."""
    return (queries + (block[0] - 1)) // block[0]


def blocks_of(keys: Any, block: tuple[int, int]) -> Any:
    """How many blocks of keys a head has."""
    return (keys + (block[1] - 1)) // block[1]


class Bounds(Struct, frozen=True):
    """Which queries attend to key j: those behind j - x and, unless y is None, before j + y. To keys before `sinks`,
    unless that is None, all behind j - x do."""

    x: Any
    y: Any
    sinks: Any

    @classmethod
    def of(cls, kind: str, y: Any, x: Any, corner: Any, sinks: Any, queries: Any, keys: Any) -> Bounds:
        """Those of a mask of a kind for so many queries and keys; the coordinate is that of `Mask.cornerless`."""
        shift = (keys - queries) * corner
        return cls(x + shift, None if kind == "causal" else y - shift, sinks if kind == "sinks" else None)


class KeyBlocks(Struct, frozen=True):
    """The blocks of keys of a sequence, head after head. All numbers are integers, or scalars or tiles of a kernel.

    Attributes:
        beside: steps that loading a block's K and V and leaving its dK and dV are worth; they stand in front of the
            others.
        begin: where the first one begins.
        steps: blocks of queries.
        count: how many a head has.
        ratio: steps from one block to the next, a power of two.
        lowest, highest: where the steps of the first block would begin and end if there were more queries in front and
            behind; None where all blocks begin with the first and end with the last.
        wide: how many blocks end with the last query although `highest` is less; None for none.
    """

    beside: Any
    begin: Any
    steps: Any
    count: Any
    ratio: int
    lowest: Any = None
    highest: Any = None
    wide: Any = None

    @classmethod
    def of(
        cls, beside: Any, begin: Any, queries: Any, keys: Any, block: tuple[int, int], bounds: Bounds | None
    ) -> KeyBlocks:
        """Those of a sequence with so many queries and keys; `block` has the queries and keys of a step."""
        rows, columns = block
        shift = rows.bit_length() - 1
        lowest, highest, wide = None, None, None
        if bounds is not None:
            lowest = (1 - bounds.x) >> shift
            if bounds.y is not None:
                highest = larger((bounds.y + (columns - 1 + rows - 1)) >> shift, lowest)
            if bounds.sinks is not None:
                wide = blocks_of(bounds.sinks, block)
        steps, count = steps_of(queries, block), blocks_of(keys, block)
        return cls(beside, begin, steps, count, columns // rows, lowest, highest, wide)

    def low(self, place: Any) -> Any:
        """The first step of a block."""
        if self.lowest is None:
            return 0
        return smaller(larger(place * self.ratio + self.lowest, 0), self.steps)

    def high(self, place: Any) -> Any:
        """The end of a block's steps."""
        if self.highest is None:
            return self.steps
        end = smaller(larger(place * self.ratio + self.highest, 0), self.steps)
        return end if self.wide is None else chosen(place < self.wide, self.steps, end)

    def before(self, place: Any) -> Any:
        """What the blocks of a head in front of one cost."""
        highs = place * self.steps
        if self.highest is not None:
            wide = 0 if self.wide is None else smaller(self.wide, place)
            highs = wide * self.steps + self._sum(place, self.highest) - self._sum(wide, self.highest)
        lows = 0 if self.lowest is None else self._sum(place, self.lowest)
        return place * self.beside + highs - lows

    def _sum(self, place: Any, first: Any) -> Any:
        """Of `first + ratio * i`, at least 0 and at most `steps`, for all i below a place."""
        shift = self.ratio.bit_length() - 1
        rising = smaller(larger((self.ratio - 1 - first) >> shift, 0), place)
        full = smaller(larger((self.steps - first + (self.ratio - 1)) >> shift, rising), place)
        count = full - rising
        slope = count * (rising * self.ratio + first) + count * (count - 1) * (self.ratio // 2)
        return slope + (place - full) * self.steps

    @property
    def width(self) -> Any:
        """What a head costs."""
        return self.before(self.count)

    def head_at(self, cost: Any) -> Any:
        """The head that a cost within the sequence lies in."""
        return (cost - self.begin) // self.width

    def first(self, head: Any) -> Any:
        """Where a head begins."""
        return self.begin + head * self.width
