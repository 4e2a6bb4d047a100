"""In which order blocks of queries, or of keys, are dealt out: the launch's grid, and a workgroup's place in it.

A chip starts workgroups in the order of their numbers, each where one has ended. Under a causal mask the last queries
attend to the most keys, and the first keys are attended to by most queries; begun at last, the longest workgroups would
keep a few compute units busy when the others have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ckmlir.lang import Scalar


class Turn(NamedTuple):
    """A workgroup's place: that among the blocks of a sequence, and what it computes of which head and sequence."""

    place: Scalar
    head: Scalar
    batch: Scalar


class Order(Protocol):
    """An order of blocks, heads and sequences."""

    def grid(self, blocks: int, heads: int, sequences: int) -> tuple[int, int, int]:
        """The launch's grid, fastest axis first."""

    def turn(self) -> Turn:
        """A workgroup's place in it."""

    def first(self, place: Scalar, rows: int, length: Scalar) -> Scalar:
        """The first row of the block at a place, of `length` rows in blocks of `rows`."""


class Rising:
    """Heads and sequences one after the other, the blocks of each from the first on."""

    def grid(self, blocks: int, heads: int, sequences: int) -> tuple[int, int, int]:
        """See `Order`."""
        return blocks, heads, sequences

    def turn(self) -> Turn:
        """See `Order`."""
        from ckmlir.lang import workgroup_id

        return Turn(workgroup_id(0), workgroup_id(1), workgroup_id(2))

    def first(self, place: Scalar, rows: int, length: Scalar) -> Scalar:
        """See `Order`."""
        found: Scalar = place * rows
        return found


class Across:
    """The first blocks of all heads and sequences, then those behind them, and so on to the last."""

    def grid(self, blocks: int, heads: int, sequences: int) -> tuple[int, int, int]:
        """See `Order`."""
        return heads, sequences, blocks

    def turn(self) -> Turn:
        """See `Order`."""
        from ckmlir.lang import workgroup_id

        return Turn(workgroup_id(2), workgroup_id(0), workgroup_id(1))

    def first(self, place: Scalar, rows: int, length: Scalar) -> Scalar:
        """See `Order`."""
        found: Scalar = place * rows
        return found


class Falling(Across):
    """The last blocks of all heads and sequences, then those before them, and so on to the first."""

    def first(self, place: Scalar, rows: int, length: Scalar) -> Scalar:
        """See `Order`."""
        found: Scalar = ((length - 1) // rows - place) * rows
        return found


class Joined(Rising):
    """The blocks of all sequences in one row, heads one after the other: as many workgroups as there is work, whatever
    the lengths. A place is that in the row; whose block it is, and which, the workgroup finds out by itself
    (`work_kernel.found`)."""

    def grid(self, blocks: int, heads: int, sequences: int) -> tuple[int, int, int]:
        """See `Order`; `blocks` are those of all sequences."""
        return blocks, heads, 1


class JoinedFalling(Across):
    """The same row from its end, all heads of a block before those of the one in front of it: of each sequence the last
    block comes first, which under a causal mask has the most keys."""

    def grid(self, blocks: int, heads: int, sequences: int) -> tuple[int, int, int]:
        """See `Order`; `blocks` are those of all sequences."""
        return heads, 1, blocks


class Dealt(Rising):
    """Shares of the blocks of all sequences in one row, heads one after the other; memory holds where those of each
    sequence begin, and how many a block has (`work_kernel.dealt`)."""

    def grid(self, blocks: int, heads: int, sequences: int) -> tuple[int, int, int]:
        """See `Order`; `blocks` are the shares of all blocks."""
        return blocks, heads, 1


ORDERS: Mapping[str, Order] = {"rising": Rising(), "across": Across(), "falling": Falling()}
JOINED, JOINED_FALLING, DEALT = "joined", "joined_falling", "dealt"
IN_ONE_ROW: Mapping[str, Order] = {JOINED: Joined(), JOINED_FALLING: JoinedFalling(), DEALT: Dealt()}
"""Those in which the blocks of all sequences are in one row."""
FORWARD_ORDERS: Mapping[str, Order] = {**ORDERS, **IN_ONE_ROW}
MOST_FURTHER = 65535
"""Workgroups along the second or third axis of a grid (HIP, `hipDeviceProp_t.maxGridSize`)."""
BLOCKS_FIRST = {"across": "rising", "falling": "rising", JOINED_FALLING: JOINED}
"""By order, the one with the same workgroups whose blocks lie along the first axis, which takes any number. Where the
third does not take them a compute unit has hundreds, so that it matters little with which it begins."""
FEWER = f"at most {MOST_FURTHER} sequences and heads"
"""What helps where no order does."""


def fits(grid: tuple[int, int, int]) -> bool:
    """Whether HIP launches a grid, by its second and third axis; one without workgroups is not launched at all."""
    return 0 in grid or max(grid[1:]) <= MOST_FURTHER
