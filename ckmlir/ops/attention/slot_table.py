"""Equal shares of attention backward for a fixed number of workgroups, and few slots for the parts of dQ.

A block of keys costs as many steps as its sequence has blocks of queries, and a few for what is done once. Blocks
follow each other by sequence, head of Q and place in the head; what is in front of a block is where it begins. Each
workgroup takes those that begin in a range of its own, all ranges being as long. What it adds to dQ of a head, block
after block, goes into one slot, which is no other's: so sums have the same bits in every run, and a head has as many
slots as workgroups have work in it. CK Tile's persistent schedule of group mode has the same ranges.

A head has a slot for the workgroup that has its first block, where dQ would lie by itself. A workgroup that begins
behind the first block of a head has a slot of its own for that head, as long as the longest sequence. So where slots
lie depends on no length, and their number is known before lengths are: the heads, and the workgroups, or the blocks of
keys but the first ones, whichever are fewer.

All that a kernel has to know of lengths is where each sequence begins (`Shares.costs`); the rest is `Blocks`, the same
arithmetic on integers and on scalars of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument, ArraySpec
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError

BESIDE = 3
"""Steps that loading a block's K and V and storing its dK and dV are worth; 1 at least, so that blocks without queries,
whose dK and dV are zeros, are counted."""


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

    def next_behind(self, cost: Any) -> Any:
        """The number, among those of all heads, of the first block that begins at a cost, not in front of the
        sequence, or behind it."""
        return (cost - self.begin + (self.width - 1)) // self.width

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
    """How long a workgroup's range is."""
    return (total + (workgroups - 1)) // workgroups


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
    def inner(self) -> int:
        """Blocks of keys of a head but the first, at most."""
        return max(int(blocks_of(self.keys.longest, self.block)) - 1, 0)

    @property
    def by_block(self) -> int:
        """How many slots each head has beside the first, where they are numbered by blocks; 0 where they are numbered
        by workgroups, since these are fewer."""
        return self.inner if self.sequences * self.heads * self.inner <= self.workgroups else 0

    @property
    def own_slots(self) -> int:
        """How many slots there are beside those of heads."""
        return min(self.sequences * self.heads * self.inner, self.workgroups)

    def own_slot(self, workgroup: int, head: int, place: int) -> int:
        """The number of the slot of a workgroup that begins at a place behind the first of a head, of all heads'."""
        return head * self.by_block + place - 1 if self.by_block else workgroup

    def first_own(self, channels: int) -> int:
        """Elements in front of the slots of workgroups: dQ of all rows."""
        rows = self.queries.total if self.queries.slots else self.sequences * self.queries.longest
        return self.heads * rows * channels

    def elements(self, channels: int) -> int:
        """Of all slots, an upper bound that depends on no length but the longest."""
        return self.first_own(channels) + self.own_slots * self.queries.longest * channels

    def arguments(self, channels: int) -> tuple[Argument, ...]:
        """What kernels are told of them: sequences, workgroups, `by_block`; elements in front of the slots of
        workgroups, and from one to the next."""
        numbers = (self.sequences, self.workgroups, self.by_block)
        places = (self.first_own(channels), self.queries.longest * channels)
        return (*map(np.int32, numbers), *map(np.int64, places))

    def check(self) -> None:
        """Raise RequestError for more work than 32 bits count."""
        by_head = blocks_of(self.keys.longest, self.block) * steps_of(self.queries.longest, self.block)
        most = self.sequences * self.heads * by_head
        if most + self.workgroups > MAXIMUM_SIZE:
            what = f"persistent=1: blocks of keys of all heads take up to {most} steps"
            raise RequestError(f"{what}; kernels count to {MAXIMUM_SIZE - self.workgroups}: expected persistent=0")

    def costs(self, arrays: Mapping[str, Array]) -> Array:
        """Where each sequence begins, and behind the last the end (sequences + 1, int64), by the arrays of lengths."""
        lengths = [[side.of(arrays, one)[1] for one in range(self.sequences)] for side in (self.queries, self.keys)]
        sq, sk = np.array(lengths, np.int64)
        by_sequence = self.heads * blocks_of(sk, self.block) * steps_of(sq, self.block)
        found: Array = np.concatenate([[0], np.cumsum(by_sequence)]).astype(np.int64)
        return found

    def blocks(self, costs: Array, arrays: Mapping[str, Array], number: int) -> Blocks:
        """Those of a sequence."""
        sq, sk = (side.of(arrays, number)[1] for side in (self.queries, self.keys))
        return Blocks.of(int(costs[number]), sq, sk, self.block)

    def work(self, arrays: Mapping[str, Array], workgroup: int) -> Iterator[tuple[int, int, int, int | None]]:
        """The (sequence, head, place, slot) of a workgroup, in order; slot is None for the head's."""
        costs = self.costs(arrays)
        share = share_of(int(costs[-1]), self.workgroups)
        cost, high = workgroup * share, min((workgroup + 1) * share, int(costs[-1]))
        begun = None
        while cost < high:
            number = int(np.searchsorted(costs, cost, side="right")) - 1
            blocks = self.blocks(costs, arrays, number)
            at = blocks.next_behind(cost)
            cost = blocks.place(at)
            if cost >= high or at == self.heads * blocks.count:
                continue
            head, place = divmod(at, blocks.count)
            begun = cost if begun is None else begun
            in_head = blocks.place(head * blocks.count)
            first = (begun - in_head) // blocks.width
            own = None if begun <= in_head else self.own_slot(workgroup, number * self.heads + head, first)
            yield number, head, place, own
            cost += blocks.width

    def slots(self, costs: Array, arrays: Mapping[str, Array], number: int, head: int) -> list[int | None]:
        """The slots of a head that are in use, in the order in which they are added; None is the head's."""
        blocks = self.blocks(costs, arrays, number)
        if not blocks.count:
            return []
        share = share_of(int(costs[-1]), self.workgroups)
        in_head = Blocks(blocks.place(head * blocks.count), blocks.width, blocks.count)
        found: list[int | None] = [None]
        for workgroup in range(in_head.begin // share + 1, in_head.place(blocks.count - 1) // share + 1):
            place = in_head.next_behind(workgroup * share)
            if place < in_head.next_behind((workgroup + 1) * share):
                found.append(self.own_slot(workgroup, number * self.heads + head, place))
        return found
