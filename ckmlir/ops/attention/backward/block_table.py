"""Ranges of whole blocks of keys for a fixed number of workgroups, and slots of dQ in order, as CK Tile has them.

This is the partition of CK Tile's persistent deterministic schedule of group mode, `ranges=blocks` of `fmha_bwd`; what
workgroups do is otherwise as `slot_table` has it. A block costs as many rows as its sequence has queries, in whole
blocks, whatever the mask is, and one block where there are none, so that its dK and dV become zeros. Ranges have
ceil(cost / workgroups) rows each; a range begins with the first block that begins in it, and no block is cut, so that
no dK or dV has pieces. Under a mask blocks come from both ends of a head in turn, which evens them out.

A workgroup that begins `within` rows behind the begin of a head has slot ceil(within / max(rows of a block, rows of a
range)) there, by CK Tile's formula, and slot 0 in heads that it begins. That is the smaller one of two numbers: by the
rows of a range the quotient is the workgroup's distance from the one whose range has the head's first row, by those of
a block the place of the block that it begins with. Of two workgroups with work in a head the later one is farther away
and begins with a later block, so its slot is another one, and it needs no clamp: no block's place is beyond the last.

A sequence has as many slots for each head as its head with most, by the last workgroup that begins within it. They
follow each other without gaps: sequences, heads, slots, rows. Packed for kernels are, besides what `Shares.costs` has,
for each sequence the slots of a head, and the rows and the slots in front of it.

With w workgroups and h heads the distance is less than cost of a head / length of ranges + 1. The sum of heads' costs
is at most w ranges. So all slots have at most 2h · queries + w · longest rows; by places, h · queries · blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ckmlir.ops.attention.backward.key_blocks import KeyBlocks, blocks_of, larger, smaller
from ckmlir.ops.attention.backward.slot_table import Shares
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div, i32

BLOCKS = "blocks"


def alike(begin: Any, queries: Any, keys: Any, block: tuple[int, int]) -> KeyBlocks:
    """The blocks of a sequence as they are counted, all alike, from where it begins on."""
    return KeyBlocks.of(0, begin, larger(queries, 1), keys, block, None)


def last_slot(blocks: KeyBlocks, head: Any, unit: int, share: Any) -> Any:
    """That of the last workgroup that begins within a head."""
    begin = blocks.first(head)
    last = begin + blocks.before(blocks.count - 1)
    return smaller(last * unit // share - begin * unit // share, blocks.count - 1)


def from_both_ends(place: Any, count: Any) -> Any:
    """The block that comes at a place: the first, the last, the second, and so on."""
    half = place // 2
    return half + (place - half * 2) * (count - 1 - half * 2)


class BlockShares(Shares, frozen=True):
    """A problem's work, whole blocks of keys for a fixed number of workgroups."""

    ranges: ClassVar[str] = BLOCKS

    @classmethod
    def worth(cls, beside: int) -> int:
        """See `Shares`: nothing is counted besides."""
        return 0

    @property
    def counted_mask(self) -> str:
        """See `Shares`."""
        return "none"

    @property
    def dearest(self) -> int:
        """See `Shares`."""
        return max(super().dearest, 1)

    @property
    def unit(self) -> int:
        """See `Shares`: a row."""
        return self.block[0]

    @property
    def numbers(self) -> int:
        """See `Shares`."""
        return self.rows_at + 2 * (self.sequences + 1)

    @property
    def rows_at(self) -> int:
        """Where the rows in front of each sequence begin in `costs`, behind the slots of heads."""
        return super().numbers + self.sequences

    @property
    def working(self) -> int:
        """See `Shares`."""
        return self.workgroups

    @property
    def uncut(self) -> int:
        """See `Shares`."""
        return MAXIMUM_SIZE

    @property
    def pieces(self) -> int:
        """See `Shares`."""
        return 0

    @property
    def count(self) -> int:
        """Of all slots, an upper bound."""
        return self._bound(self.sequences, 1)

    def elements(self, channels: int) -> int:
        """See `Shares`."""
        queries = self.queries
        rows = queries.total if queries.slots else self.sequences * queries.longest
        return self._bound(rows, queries.longest) * channels

    def _bound(self, total: int, longest: int) -> int:
        """Of what slots have, by what sequences have together, and one at most."""
        most = int(blocks_of(self.keys.longest, self.block))
        return min(self.heads * total * most, 2 * self.heads * total + self.workgroups * longest)

    def arguments(self, channels: int) -> tuple[Argument, ...]:
        """See `Shares`: without places of slots, which are packed."""
        return tuple(map(i32, (self.sequences, self.beside, self.uncut)))

    def check(self) -> None:
        """See `Shares`."""
        super().check()
        blocks = self.sequences * self.heads * int(blocks_of(self.keys.longest, self.block))
        most = (blocks + self.workgroups) * self.dearest * self.unit
        if most > MAXIMUM_SIZE:
            what = f"ranges=blocks: blocks of keys of all heads take up to {most} queries"
            raise RequestError(f"{what}; kernels count to {MAXIMUM_SIZE}: expected ranges=steps")

    def costs(self, arrays: Mapping[str, Array]) -> Array:
        """See `Shares`; behind them the slots of a head of each sequence, and the rows and slots in front of each."""
        costs = super().costs(arrays)
        splits = np.array([self._splits(costs, arrays, one) for one in range(self.sequences)], np.int64)
        rows = [self.queries.of(arrays, one)[1] for one in range(self.sequences)]
        ends = [np.cumsum(self.heads * splits * one) for one in (np.array(rows, np.int64), 1)]
        found: Array = np.concatenate([costs, splits, [0], ends[0], [0], ends[1]])
        return found

    def _splits(self, costs: Array, arrays: Mapping[str, Array], number: int) -> int:
        """Slots of a head of a sequence."""
        blocks = self.blocks(costs, arrays, number)
        if not blocks.count:
            return 0
        return int(last_slot(blocks, np.arange(self.heads), self.unit, int(costs[self.sequences + 1])).max()) + 1

    def _blocks(self, begin: Any, queries: Any, keys: Any) -> KeyBlocks:
        return alike(begin, queries, keys, self.block)

    def _part(
        self, arrays: Mapping[str, Array], number: int, place: int, within: tuple[int, int]
    ) -> tuple[int, range]:
        """See `Shares`: all steps of the block that comes there."""
        sq, sk = (side.of(arrays, number)[1] for side in (self.queries, self.keys))
        blocks = KeyBlocks.of(0, 0, sq, sk, self.block, self._bounds(sq, sk))
        at = place if self.mask.kind == "none" else from_both_ends(place, int(blocks.count))
        return at, range(int(blocks.low(at)), int(blocks.high(at)))

    def _begin(self, workgroup: int, share: int) -> int:
        """See `Shares`: no block begins within a step."""
        return ceil_div(workgroup * share, self.unit)

    def _slot(self, costs: Array, arrays: Mapping[str, Array], workgroup: int, low: int, first: int) -> int:
        """See `Shares`."""
        if low <= first:
            return 0
        away = workgroup - first * self.unit // int(costs[self.sequences + 1])
        return min(away, self._find(costs, arrays, low)[2])

    def slots(self, costs: Array, arrays: Mapping[str, Array], number: int, head: int) -> list[int | None]:
        """See `Shares`; some may have no rows."""
        return [*range(int(costs[self.sequences + 2 + number]))]

    def place(
        self, costs: Array, arrays: Mapping[str, Array], number: int, head: int, slot: int | None, channels: int
    ) -> int:
        """See `Shares`."""
        among = head * int(costs[self.sequences + 2 + number]) + (slot or 0)
        return (int(costs[self.rows_at + number]) + among * self.queries.of(arrays, number)[1]) * channels

    def index(self, costs: Array, number: int, head: int, slot: int | None) -> int:
        """See `Shares`."""
        in_front = int(costs[self.rows_at + self.sequences + 1 + number])
        return in_front + head * int(costs[self.sequences + 2 + number]) + (slot or 0)


KINDS: Mapping[str, type[Shares]] = {one.ranges: one for one in (Shares, BlockShares)}
"""By what ranges end behind."""


def shares_by(
    ranges: str, sequences: int, heads: int, queries: Rows, keys: Rows, block: tuple[int, int], workgroups: int,
    mask: Mask, beside: int,
) -> Shares:  # fmt: skip
    """Shares with ranges of a kind; `beside` as `Shares.worth` has it. Raises RequestError."""
    kind = KINDS[ranges]
    shares = kind(sequences, heads, queries, keys, block, workgroups, mask, kind.worth(beside))
    shares.check()
    return shares
