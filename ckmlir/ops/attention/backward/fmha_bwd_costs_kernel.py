"""The kernel of `fmha_bwd_costs`: a wave goes over the sequences and sums up what they cost."""

from __future__ import annotations

from typing import Any

from ckmlir.lang import Kernel, i32, kernel, loop, ptr, reduce_sum
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

    @kernel(spec.name, target=target, waves=1, arguments=arguments)
    def fmha_bwd_costs(given: Any) -> None:
        with loop(0, given.count + 1, TILE, carry=[0]) as step:
            (before,) = step.carried
            tile = SequenceTile(given, spec.sequences, step.index)
            sq, sk = tile.lengths()
            blocks = KeyBlocks.of(given.beside, 0, sq, sk, spec.block, bounds_of(spec.mask, given, sq, sk))
            costs = blocks.width * given.heads
            tile.put(given.costs, tile.before(costs, before), given.count + 1)
            step.carry(before + whole(reduce_sum, costs))
        put_one(given.costs.offset(given.count + 1), share_of(step.results[0], given.workgroups))

    return fmha_bwd_costs
