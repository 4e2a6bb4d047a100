"""Equal shares of attention backward for a fixed number of workgroups, and few slots for the parts of dQ.

A block of keys costs as many steps as blocks of queries attend to it (`key_blocks`), and a few for what is done once.
Blocks follow each other by sequence, head of Q and place in the head; what is in front of a step is where it stands.
Each workgroup takes the steps in a range of its own, all as long as each other; where it begins within a block it loads
that again. A block that is longer than a range is in several. Ends move to those of a block where a piece would hardly
have steps (`boundary`). What a workgroup adds to dQ of a head, step after step, goes into a slot of its own, and the
pieces of a block leave dK and dV in slots of theirs. So sums have the same bits in every run, and a head has as many
slots as workgroups have work in it. CK Tile's persistent schedule of group mode has such ranges of whole blocks:
`block_table`.

A head has a slot for the workgroup that has its first step, where dQ would lie by itself. A workgroup that begins
behind the first step of a head has a slot of its own for that head, as long as the longest sequence. So where slots lie
depends on no length, and their number is known before lengths are: the heads, and the workgroups or the blocks of keys,
whichever are fewer; the work is shared by no more workgroups than there are blocks. A workgroup has two slots for
pieces, of the block that it begins within and of another that it ends within, where the longest block may be cut.

The first piece that reaches a row of a slot stores it, others add. So a slot is defined in one run of rows (`Written`),
and nothing is set to zero but rows between two pieces that do not meet.

All that a kernel has to know of lengths is where each sequence begins, and how long ranges are (`Shares.costs`); the
rest is `KeyBlocks`, the same arithmetic on integers and on scalars of a kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.attention.backward.key_blocks import Bounds, KeyBlocks, blocks_of, boundary, steps_of
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import i32, i64

EVERYTHING = Mask.parse("none")
BESIDE = 6
"""Of problems that do not say otherwise."""
FEW_STEPS = 10
"""If no block has more steps, blocks stay whole, and pieces need no slots."""


def share_of(total: Any, workgroups: Any) -> Any:
    """How long a workgroup's range is."""
    return (total + (workgroups - 1)) // workgroups


class Piece(NamedTuple):
    """A part of a block of keys: the sequence, the head, the block's place in it, the slot (None for the head's), and
    the blocks of queries."""

    sequence: int
    head: int
    place: int
    slot: int | None
    steps: range


class Written(NamedTuple):
    """The run of rows that a slot has, from `low` to before `high`, rows in whole blocks; scalars or integers."""

    low: Any
    high: Any

    def beginning(self, low: Any) -> Written:
        """The same, or where it has no rows, none at a row."""
        if isinstance(self.low, int):
            return self if self.low < self.high else Written(low, low)
        empty = self.low.equals(self.high)
        return Written(*(empty.select(low, one) for one in self))


class Shares(Struct, frozen=True):
    """A problem's work for a fixed number of workgroups.

    Attributes:
        sequences: how many; heads: of Q.
        block: queries and keys of a step.
        beside: steps that loading and leaving a block of keys is worth, see `KeyBlocks`.
    """

    ranges: ClassVar[str] = "steps"
    """What they end behind, a key of requests."""
    sequences: int
    heads: int
    queries: Rows
    keys: Rows
    block: tuple[int, int]
    workgroups: int
    mask: Mask = EVERYTHING
    beside: int = BESIDE

    @classmethod
    def worth(cls, beside: int) -> int:
        """What is `beside` where loading and leaving a block is worth so many steps."""
        return beside

    @property
    def counted_mask(self) -> str:
        """That by which blocks cost what they do."""
        return self.mask.kind

    @property
    def unit(self) -> int:
        """The part of a step in which the length of ranges counts."""
        return 1

    @property
    def numbers(self) -> int:
        """How many there are in `costs`."""
        return self.sequences + 2

    @property
    def words(self) -> tuple[str, str]:
        """What memory holds of queries and of keys: see `sequences.Rows.word`."""
        return self.queries.word, self.keys.word

    def arrays(self) -> tuple[ArraySpec, ...]:
        """Those that say where sequences begin and how long they are."""
        return (*self.queries.arrays(), *self.keys.arrays())

    def values(self) -> dict[str, Array]:
        """Their values as the request has them."""
        return {**self.queries.values(), **self.keys.values()}

    def check_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError for arrays that no sequences have."""
        self.queries.check(arrays)
        self.keys.check(arrays)

    @property
    def own_slots(self) -> int:
        """How many slots there are beside those of heads: those of workgroups, by their numbers."""
        return min(self.sequences * self.heads * int(blocks_of(self.keys.longest, self.block)), self.workgroups)

    @property
    def working(self) -> int:
        """How many workgroups the work is for: no more than there may be blocks."""
        return max(self.own_slots, 1)

    @property
    def pieces(self) -> int:
        """How many slots there are for dK, and for dV, of pieces of blocks."""
        return 0 if self.dearest <= self.uncut else 2 * self.own_slots

    @property
    def uncut(self) -> int:
        """What a block costs at most that is not cut: of a dearer one each of two workgroups has more than it takes to
        load it."""
        return max(2 * self.beside, self.dearest if self.dearest <= self.beside + FEW_STEPS else 0)

    @property
    def dearest(self) -> int:
        """What no block costs more than."""
        return int(steps_of(self.queries.longest, self.block)) + self.beside

    @property
    def count(self) -> int:
        """Of all slots: those of heads, then those of workgroups."""
        return self.sequences * self.heads + self.own_slots

    def first_own(self, channels: int) -> int:
        """Elements in front of the slots of workgroups: dQ of all rows."""
        rows = self.queries.total if self.queries.slots else self.sequences * self.queries.longest
        return self.heads * rows * channels

    def elements(self, channels: int) -> int:
        """Of all slots, an upper bound that depends on no length but the longest."""
        return self.first_own(channels) + self.own_slots * self.queries.longest * channels

    def arguments(self, channels: int) -> tuple[Argument, ...]:
        """What kernels are told of them: sequences; what is beside the steps of a block, and which stay uncut; elements
        in front of the slots of workgroups, and from one to the next."""
        places = (self.first_own(channels), self.queries.longest * channels)
        return (*map(i32, (self.sequences, self.beside, self.uncut)), *map(i64, places))

    @property
    def bounding(self) -> tuple[Argument, ...]:
        """What kernels are told of the mask: its coordinate, sink tokens if it has any, and whether its corner is the
        bottom right one; nothing where all queries attend to all keys."""
        if self.mask.kind == "none":
            return ()
        y, x = self.mask.cornerless(self.queries.longest, self.keys.longest)
        sinks = [self.mask.sink] * (self.mask.kind == "sinks")
        return tuple(map(i32, (y, x, *sinks, self.mask.bottom_right)))

    def check(self) -> None:
        """Raise RequestError for more work than 32 bits count."""
        most = MAXIMUM_SIZE - sum(self.block)  # blocks that masks cut end behind the last query and the last key
        if (together := self.queries.longest + self.keys.longest) > most:
            what = f"persistent=1: queries and keys of a sequence are {together} together"
            raise RequestError(f"{what}; expected at most {most}, or persistent=0")
        blocks = self.sequences * self.heads * int(blocks_of(self.keys.longest, self.block))
        most = (blocks + self.workgroups) * self.dearest
        if most > MAXIMUM_SIZE:
            what = f"persistent=1: blocks of keys of all heads take up to {most} steps"
            raise RequestError(f"{what}; kernels count to {MAXIMUM_SIZE}: expected persistent=0")

    def costs(self, arrays: Mapping[str, Array]) -> Array:
        """Where each sequence begins, behind the last the end, and the length of ranges (sequences + 2, int64), by the
        arrays of lengths."""
        lengths = [[side.of(arrays, one)[1] for one in range(self.sequences)] for side in (self.queries, self.keys)]
        blocks = self._blocks(0, *np.array(lengths, np.int64))
        ends = np.cumsum(self.heads * blocks.width * np.ones(self.sequences, np.int64))
        share = share_of((ends[-1] if len(ends) else 0) * self.unit, self.working)
        found: Array = np.concatenate([[0], ends, [share]]).astype(np.int64)
        return found

    def pack(self, arrays: Mapping[str, Array], packed: Array) -> None:
        """Fill a workspace with the costs, on the host."""
        packed.view(np.int32)[:] = self.costs(arrays)

    def blocks(self, costs: Sequence[int] | Array, arrays: Mapping[str, Array], number: int) -> KeyBlocks:
        """Those of a sequence."""
        sq, sk = (side.of(arrays, number)[1] for side in (self.queries, self.keys))
        return self._blocks(int(costs[number]), sq, sk)

    def _blocks(self, begin: Any, queries: Any, keys: Any) -> KeyBlocks:
        return KeyBlocks.of(self.beside, begin, queries, keys, self.block, self._bounds(queries, keys))

    def _bounds(self, queries: Any, keys: Any) -> Bounds | None:
        if not self.bounding:
            return None
        y, x, *_, corner = (int(one) for one in self.bounding)
        return Bounds.of(self.mask.kind, y, x, corner, self.mask.sink, queries, keys)

    def work(self, arrays: Mapping[str, Array], workgroup: int) -> Iterator[Piece]:
        """What a workgroup does, in order."""
        costs = self.costs(arrays)
        total, share = costs[self.sequences : self.sequences + 2].tolist()
        ends = (min(self._begin(one, share), total) for one in (workgroup, workgroup + 1))
        low, high = (self._boundary(costs, arrays, one) for one in ends)
        cost = low
        while cost < high:
            number, head, place, first, begin, end = self._find(costs, arrays, cost)
            until = min(end, high)
            slot = self._slot(costs, arrays, workgroup, low, first)
            at, steps = self._part(arrays, number, place, (cost - begin, until - begin))
            yield Piece(number, head, at, slot, steps)
            cost = until

    def _part(
        self, arrays: Mapping[str, Array], number: int, place: int, within: tuple[int, int]
    ) -> tuple[int, range]:
        """Of the block that has a place among those of a head: which block of keys it is, and the steps between two
        costs behind its begin."""
        sq, sk = (side.of(arrays, number)[1] for side in (self.queries, self.keys))
        low = int(self._blocks(0, sq, sk).low(place))
        return place, range(*(low + max(one - self.beside, 0) for one in within))

    def _begin(self, workgroup: int, share: int) -> int:
        """The cost at which a workgroup's range would begin."""
        return workgroup * share

    def _slot(self, costs: Array, arrays: Mapping[str, Array], workgroup: int, low: int, first: int) -> int | None:
        """The slot, in a head that begins at `first`, of a workgroup that begins at `low`."""
        return None if low <= first else workgroup

    def cut(self, arrays: Mapping[str, Array]) -> Iterator[tuple[int, int, int, int]]:
        """The workgroups that begin within a block of keys, which they share with those before: each with the sequence,
        the head and the block's place in it."""
        costs = self.costs(arrays)
        total, share = costs[self.sequences : self.sequences + 2].tolist()
        for workgroup in range(1, self.workgroups):
            cost = self._begin(workgroup, share)
            if cost >= total:
                return
            number, head, place, _, begin, end = self._find(costs, arrays, cost - 1)
            if begin < boundary(cost, begin, end, self.beside, self.uncut) < end:
                yield workgroup, number, head, place

    def _boundary(self, costs: Array, arrays: Mapping[str, Array], cost: int) -> int:
        if cost >= costs[self.sequences]:
            return cost
        found: int = boundary(cost, *self._find(costs, arrays, max(cost - 1, 0))[-2:], self.beside, self.uncut)
        return found

    def _find(self, costs: Array, arrays: Mapping[str, Array], cost: int) -> tuple[int, int, int, int, int, int]:
        """The sequence, the head and the block that a cost lies in, where the head begins, and the block's ends."""
        number = int(np.searchsorted(costs[1 : self.sequences + 1], cost, side="right"))
        blocks = self.blocks(costs, arrays, number)
        head = int(blocks.head_at(cost))
        first = int(blocks.first(head))
        place = _place(blocks, cost - first)
        begin, end = (first + int(blocks.before(one)) for one in (place, place + 1))
        return number, head, place, first, begin, end

    def slots(self, costs: Array, arrays: Mapping[str, Array], number: int, head: int) -> list[int | None]:
        """The slots of a head that are added, in their order; None is the head's."""
        blocks, share = self.blocks(costs, arrays, number), int(costs[-1])
        if not blocks.count:
            return []
        begin, end = int(blocks.first(head)), int(blocks.first(head + 1))
        others = range(begin // share + 1, end // share + 1)
        ends = [self._boundary(costs, arrays, one * share) for one in range(others.start, others.stop + 1)]
        own = zip(others, itertools.pairwise(ends), strict=True)
        return [None, *(one for one, (low, high) in own if begin < low < min(high, end))]

    def place(
        self, costs: Array, arrays: Mapping[str, Array], number: int, head: int, slot: int | None, channels: int
    ) -> int:
        """Elements in front of a slot."""
        if slot is not None:
            return self.first_own(channels) + slot * self.queries.longest * channels
        start = 0 if self.queries.slots else number * self.heads * self.queries.longest
        return (start + head * self.queries.total + self.queries.of(arrays, number)[0]) * channels

    def index(self, costs: Array, number: int, head: int, slot: int | None) -> int:
        """A slot's place among all."""
        return number * self.heads + head if slot is None else self.sequences * self.heads + slot

    def written(self, arrays: Mapping[str, Array]) -> Array:
        """The run of rows that each slot has (count, 2), zeros for those that are not in use. Of slots of workgroups
        without work kernels leave it open."""
        found, costs = np.zeros((self.count, 2), np.int64), self.costs(arrays)
        for workgroup in range(self.workgroups):
            for number, head, _, slot, steps in self.work(arrays, workgroup):
                index = self.index(costs, number, head, slot)
                low, high = (one * self.block[0] for one in (steps.start, steps.stop))
                before = Written(*found[index].tolist())
                if low < high:
                    before = before.beginning(low)
                    found[index] = min(before.low, low), max(before.high, high)
        return found


def _place(blocks: KeyBlocks, cost: int) -> int:
    """The block of a head that a cost lies in."""
    low, high = 0, int(blocks.count)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if blocks.before(middle) <= cost else (low, middle)
    return low
