"""Equal shares of attention backward for a fixed number of workgroups, and few slots for the parts of dQ.

A block of keys costs as many steps as its sequence has blocks of queries, and a few for what is done once. Blocks
follow each other by sequence, head of Q and place in the head; what is in front of a step is where it stands. Each
workgroup takes the steps in a range of its own, all ranges being as long as the dearest block, or longer. What it adds
to dQ of a head, step after step, goes into one slot, which is no other's; and a block's dK and dV are those of at most
two workgroups, which may add them in any order, since two numbers have one sum. So sums have the same bits in every
run, and a head has as many slots as workgroups have work in it. CK Tile's persistent schedule of group mode has such
ranges of whole blocks.

A head has a slot for the workgroup that has its first step, where dQ would lie by itself. A workgroup that begins
behind the first step of a head has a slot of its own for that head, as long as the longest sequence. So where slots lie
depends on no length, and their number is known before lengths are: the heads, and the workgroups or the blocks of keys,
whichever are fewer.

All that a kernel has to know of lengths is where each sequence begins, and how long ranges are (`Shares.costs`); the
rest is `Blocks`, the same arithmetic on integers and on scalars of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument, ArraySpec
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError

BESIDE = 3
"""Steps that loading a block's K and V and adding its dK and dV are worth; they stand in front of the others."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of keys of a sequence, head after head. All numbers are integers, or scalars of a kernel.

    Attributes:
        begin: where the first one begins.
        width: what each costs.
        count: how many a head has.
    """

    begin: Any
    width: Any
    count: Any

    @classmethod
    def of(cls, begin: Any, queries: Any, keys: Any, block: tuple[int, int]) -> Blocks:
        """Those of a sequence with so many queries and keys; `block` has the queries and keys of a step."""
        return cls(begin, steps_of(queries, block), blocks_of(keys, block))

    def at(self, cost: Any) -> Any:
        """The number, among those of all heads, of the block that a cost within the sequence lies in."""
        return (cost - self.begin) // self.width

    def place(self, number: Any) -> Any:
        """Where a block begins."""
        return self.begin + number * self.width


def steps_of(queries: Any, block: tuple[int, int]) -> Any:
    """What a block of keys costs; numbers as in `Blocks`, or an array."""
    return (queries + (block[0] - 1)) // block[0] + BESIDE


def blocks_of(keys: Any, block: tuple[int, int]) -> Any:
    """How many blocks of keys a head has."""
    return (keys + (block[1] - 1)) // block[1]


def share_of(total: Any, workgroups: Any) -> Any:
    """How long a workgroup's range is, unless a block is dearer."""
    return (total + (workgroups - 1)) // workgroups


class Piece(NamedTuple):
    """A part of a block of keys: the sequence, the head, the block's place in it, the slot (None for the head's), and
    the blocks of queries."""

    sequence: int
    head: int
    place: int
    slot: int | None
    steps: range


@dataclass(frozen=True)
class Shares:
    """A problem's work for a fixed number of workgroups.

    Attributes:
        sequences: how many; heads: of Q.
        block: queries and keys of a step.
    """

    sequences: int
    heads: int
    queries: Rows
    keys: Rows
    block: tuple[int, int]
    workgroups: int

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
    def most_blocks(self) -> int:
        """Blocks of keys of a head, at most."""
        return int(blocks_of(self.keys.longest, self.block))

    @property
    def by_block(self) -> int:
        """How many slots each head has beside the first, where they are numbered by blocks; 0 where they are numbered
        by workgroups, since these are fewer."""
        return self.most_blocks if self.sequences * self.heads * self.most_blocks < self.workgroups else 0

    @property
    def own_slots(self) -> int:
        """How many slots there are beside those of heads."""
        return min(self.sequences * self.heads * self.most_blocks, self.workgroups)

    def own_slot(self, workgroup: int, head: int, place: int) -> int:
        """The number of the slot of a workgroup that begins in a block behind the first step of a head, of all
        heads'."""
        return head * self.by_block + place if self.by_block else workgroup

    def first_own(self, channels: int) -> int:
        """Elements in front of the slots of workgroups: dQ of all rows."""
        rows = self.queries.total if self.queries.slots else self.sequences * self.queries.longest
        return self.heads * rows * channels

    def elements(self, channels: int) -> int:
        """Of all slots, an upper bound that depends on no length but the longest."""
        return self.first_own(channels) + self.own_slots * self.queries.longest * channels

    def arguments(self, channels: int) -> tuple[Argument, ...]:
        """What kernels are told of them: sequences, `by_block`; elements in front of the slots of workgroups, and from
        one to the next."""
        places = (self.first_own(channels), self.queries.longest * channels)
        return (np.int32(self.sequences), np.int32(self.by_block), *map(np.int64, places))

    def check(self) -> None:
        """Raise RequestError for more work than 32 bits count."""
        width = steps_of(self.queries.longest, self.block)
        most = (self.sequences * self.heads * self.most_blocks + self.workgroups) * width
        if most > MAXIMUM_SIZE:
            what = f"persistent=1: blocks of keys of all heads take up to {most} steps"
            raise RequestError(f"{what}; kernels count to {MAXIMUM_SIZE}: expected persistent=0")

    def costs(self, arrays: Mapping[str, Array]) -> Array:
        """Where each sequence begins, behind the last the end, and the length of ranges (sequences + 2, int64), by the
        arrays of lengths."""
        lengths = [[side.of(arrays, one)[1] for one in range(self.sequences)] for side in (self.queries, self.keys)]
        sq, sk = np.array(lengths, np.int64)
        widths, blocks = steps_of(sq, self.block), blocks_of(sk, self.block)
        ends = np.cumsum(self.heads * blocks * widths)
        share = max(share_of(ends[-1] if len(ends) else 0, self.workgroups), widths[blocks > 0].max(initial=0))
        found: Array = np.concatenate([[0], ends, [share]]).astype(np.int64)
        return found

    def blocks(self, costs: Sequence[int] | Array, arrays: Mapping[str, Array], number: int) -> Blocks:
        """Those of a sequence."""
        sq, sk = (side.of(arrays, number)[1] for side in (self.queries, self.keys))
        return Blocks.of(int(costs[number]), sq, sk, self.block)

    def work(self, arrays: Mapping[str, Array], workgroup: int) -> Iterator[Piece]:
        """What a workgroup does, in order."""
        *begins, total, share = self.costs(arrays).tolist()
        low, high = workgroup * share, min((workgroup + 1) * share, total)
        cost = low
        while cost < high:
            number = int(np.searchsorted([*begins[1:], total], cost, side="right"))
            blocks = self.blocks(begins, arrays, number)
            at = blocks.at(cost)
            head, place = divmod(at, blocks.count)
            begin, first = blocks.place(at), blocks.place(head * blocks.count)
            until = min(begin + blocks.width, high)
            steps = (max(one - begin - BESIDE, 0) for one in (cost, until))
            of_head, begun = number * self.heads + head, (low - first) // blocks.width
            own = None if low <= first else self.own_slot(workgroup, of_head, begun)
            yield Piece(number, head, place, own, range(*steps))
            cost = until

    def slots(self, costs: Array, arrays: Mapping[str, Array], number: int, head: int) -> list[int | None]:
        """The slots of a head that are in use, in the order in which they are added; None is the head's."""
        blocks, share = self.blocks(costs, arrays, number), int(costs[-1])
        if not blocks.count:
            return []
        of_head, first = number * self.heads + head, head * blocks.count
        begin, end = blocks.place(first), blocks.place(first + blocks.count)
        others = range(begin // share + 1, (end - 1) // share + 1)
        return [None, *(self.own_slot(one, of_head, blocks.at(one * share) - first) for one in others)]
