"""Equal shares of attention backward for a fixed number of workgroups, and few slots for the parts of dQ.

A block of keys costs as many steps as its sequence has blocks of queries. Blocks follow each other by sequence, head of
Q and key, and each workgroup takes those that begin in a range of the same cost. What a workgroup adds to dQ of a head,
block after block, goes into one slot, which is no other's: so sums have the same bits in every run, and a head needs as
many slots as workgroups have work in it, not as many as it has blocks. CK Tile's persistent schedule of group mode is
this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ckmlir.ops.comparison import Array


@dataclass(frozen=True)
class SlotTable:
    """What every workgroup does; arrays are int64.

    Attributes:
        widths, blocks: by sequence, what a block of keys costs, and how many blocks of keys a head has.
        heads: of Q.
        low, high: by workgroup, the range of cost that is its own; nothing where they are equal.
        batch, head, block, slot: where it begins: the sequence, the head, the block of keys, and the slot in that head.
            In the heads behind it its slot is 0.
        slots: by sequence, how many slots a head has, at least 1.
    """

    widths: Array
    blocks: Array
    heads: int
    low: Array
    high: Array
    batch: Array
    head: Array
    block: Array
    slot: Array
    slots: Array

    def work(self, workgroup: int) -> Iterator[tuple[int, int, int, int]]:
        """The (sequence, head, block of keys, slot) of a workgroup, in order, as a kernel walks over them."""
        at, high = int(self.low[workgroup]), int(self.high[workgroup])
        batch, head, block, slot = (int(one[workgroup]) for one in (self.batch, self.head, self.block, self.slot))
        while at < high:
            if block == self.blocks[batch]:
                head, block, slot = head + 1, 0, 0
                if head == self.heads:
                    batch, head = batch + 1, 0
                continue
            yield batch, head, block, slot
            at, block = at + int(self.widths[batch]), block + 1

    def offsets(self, queries: Sequence[int], channels: int) -> Array:
        """Elements from the workspace's begin to the slots of each sequence, and behind the last: (heads, slots,
        queries, channels) of f32 for each."""
        sizes = self.heads * self.slots * np.asarray(queries, np.int64) * channels
        found: Array = np.concatenate([[0], np.cumsum(sizes)])
        return found


def slot_table(
    queries: Sequence[int], keys: Sequence[int], heads: int, workgroups: int, block: tuple[int, int]
) -> SlotTable:
    """The table for sequences of so many queries and keys.

    Args:
        block: queries and keys of a step. A sequence without queries costs as much as one with a block of them, since
            its dK and dV are set to zero.
    """
    sq, sk = (np.asarray(lengths, np.int64) for lengths in (queries, keys))
    widths = np.maximum(-(-sq // block[0]), 1) * block[0]
    blocks = -(-sk // block[1])
    by_head = blocks * widths
    begin = np.concatenate([[0], np.cumsum(heads * by_head)])
    total = int(begin[-1])
    if not total:
        zero = np.zeros(workgroups, np.int64)
        return SlotTable(widths, blocks, heads, zero, zero, zero, zero, zero, zero, np.ones(len(sq), np.int64))
    target = -(-total // workgroups)
    wanted = np.minimum(np.arange(workgroups) * target, total - 1)
    batch = np.searchsorted(begin, wanted, side="right") - 1
    head = (wanted - begin[batch]) // by_head[batch]
    within = wanted - begin[batch] - head * by_head[batch]
    first = -(-within // widths[batch])
    low = begin[batch] + head * by_head[batch] + first * widths[batch]
    low = np.where(np.arange(workgroups) * target >= total, total, low)
    high = np.append(low[1:], total)
    slot = -(-within // np.maximum(widths[batch], target))
    # A range that begins in a head's last block has its first block in the next head.
    inside = np.minimum(low, total - 1)
    batch = np.searchsorted(begin, inside, side="right") - 1
    head = (inside - begin[batch]) // by_head[batch]
    at = (inside - begin[batch] - head * by_head[batch]) // widths[batch]
    slot = np.where(at == 0, 0, slot)
    slots = np.ones(len(sq), np.int64)
    np.maximum.at(slots, batch, np.where(low < high, slot + 1, 1))
    return SlotTable(widths, blocks, heads, low, high, batch, head, at, slot, slots)
