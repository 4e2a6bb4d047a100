"""The kernel of `fmha_bwd_costs`: a wave goes over the sequences and sums up what they cost."""

from __future__ import annotations

from typing import Any

from ckmlir.lang import Kernel, Scalar, Tile, i32, kernel, loop, ptr, reduce_sum, splat_like, where
from ckmlir.ops.attention.backward.block_table import BLOCKS, alike, last_slot
from ckmlir.ops.attention.backward.fmha_bwd_costs import CostsSpec
from ckmlir.ops.attention.backward.key_blocks import KeyBlocks
from ckmlir.ops.attention.backward.shares_kernel import bounding, bounds_of
from ckmlir.ops.attention.backward.slot_table import share_of
from ckmlir.ops.attention.sequence_sums_kernel import TILE, SequenceTile, put_one
from ckmlir.ops.whole_tile import whole
from ckmlir.targets import Target


def build(spec: CostsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {name: ptr("i32") for name in (*spec.lists, "costs")}
    arguments |= dict.fromkeys(("count", "heads", "sq", "sk", "workgroups", "beside"), i32) | bounding(spec.mask)
    whole_blocks = spec.ranges == BLOCKS
    unit = spec.block[0] if whole_blocks else 1

    @kernel(spec.name, target=target, waves=1, arguments=arguments)
    def fmha_bwd_costs(given: Any) -> None:
        def counted(sq: Tile, sk: Tile) -> KeyBlocks:
            if whole_blocks:
                return alike(0, sq, sk, spec.block)
            return KeyBlocks.of(given.beside, 0, sq, sk, spec.block, bounds_of(spec.mask, given, sq, sk))

        with loop(0, given.count + 1, TILE, carry=[0]) as step:
            (before,) = step.carried
            tile = SequenceTile(given, spec.sequences, step.index)
            sq, sk = tile.lengths()
            costs = counted(sq, sk).width * given.heads
            tile.put(given.costs, tile.before(costs, before), given.count + 1)
            step.carry(before + whole(reduce_sum, costs))
        share = share_of(step.results[0] * unit, given.workgroups)
        put_one(given.costs.offset(given.count + 1), share)
        if whole_blocks:
            _put_slots(spec, given, share.maximum(1))

    return fmha_bwd_costs


def _put_slots(spec: CostsSpec, given: Any, share: Scalar) -> None:
    """Behind the costs the slots of a head of each sequence, and the rows and slots in front of each."""
    splits_at = given.costs.offset(given.count + 2)
    rows_at = splits_at.offset(given.count)
    slots_at = rows_at.offset(given.count + 1)
    with loop(0, given.count + 1, TILE, carry=[0, 0, 0]) as step:
        sums = step.carried
        tile = SequenceTile(given, spec.sequences, step.index)
        sq, sk = tile.lengths()
        costs = alike(0, sq, sk, spec.block).width * given.heads
        blocks = alike(tile.before(costs, sums[0]), sq, sk, spec.block)
        with loop(0, given.heads, 1, carry=[splat_like(sq, 0, "i32")]) as head:
            head.carry(head.carried[0].maximum(last_slot(blocks, head.index, spec.block[0], share)))
        splits = where(blocks.count > 0, head.results[0] + 1, 0)
        rows, slots = splits * given.heads * sq, splits * given.heads
        tile.put(splits_at, splits, given.count)
        tile.put(rows_at, tile.before(rows, sums[1]), given.count + 1)
        tile.put(slots_at, tile.before(slots, sums[2]), given.count + 1)
        added = (whole(reduce_sum, one) for one in (costs, rows, slots))
        step.carry(*(before + one for before, one in zip(sums, added, strict=True)))
