"""Lists of blocks of keys in the loop over keys: an index of the loop is a place in the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ckmlir.lang import Pointer, Scalar
from ckmlir.ops.attention.loop.loop_kernel import Form, Score, Span
from ckmlir.ops.attention.loop.spans_kernel import Reach, Run, rounded_up
from ckmlir.ops.attention.loop.work_kernel import Work


class Blocks(Struct, frozen=True):
    """The list of a block of queries.

    Attributes:
        numbers: of blocks, one behind the other; entries: how many memory holds; count: how many count.
        size: keys of a block; exist: blocks that the sequence has.
        nowhere: a key behind the sequence's last, where a step may begin.
    """

    numbers: Pointer
    entries: Scalar
    count: Scalar
    size: int
    exist: Scalar
    nowhere: Scalar

    def key(self, index: Scalar) -> Scalar:
        """The key at an index of all listed keys; no key of the sequence where the block does not exist."""
        number = self.numbers.scalar((index // self.size).minimum(self.entries - 1))
        key: Scalar = number.below(self.exist).select(number * self.size + index % self.size, self.nowhere)
        return key


class Listed(Span, frozen=True):
    """Steps over the keys of listed blocks."""

    blocks: Blocks

    def key(self, index: Scalar) -> Scalar:
        """See `Span`."""
        return self.blocks.key(index)


class ListedReach(Reach, frozen=True, kw_only=True):
    """The keys of listed blocks, of which the mask leaves some."""

    blocks: Blocks

    def over(self, runs: Sequence[Run], scores: Sequence[Score]) -> Span:
        """See `Reach`: all listed keys, whatever the mask would leave out as a whole."""
        return Listed(0, self.blocks.count * self.blocks.size, scores, self.blocks)


def listed(block: tuple[int, int], given: Any, work: Work, form: Form, reach: Reach) -> Reach:
    """The listed keys for the work's queries; see `parts.block_lists` for the arguments."""
    queries, keys = block
    rows, entries = given.block_rows, given.block_entries
    head = work.batch.to("i64") * given.h.to("i64") + work.head.to("i64")
    row = head * rows.to("i64") + (work.first // queries).minimum(rows - 1).to("i64")
    count = given.block_counts.scalar(row).minimum(entries).maximum(0)
    numbers, exist = given.block_list.offset(row * entries.to("i64")), (work.sk + (keys - 1)) // keys
    blocks = Blocks(numbers, entries, count, keys, exist, rounded_up(work.sk, form))
    return ListedReach(reach.some, reach.every, reach.mask, blocks=blocks)
