"""The kernel of `fmha_bwd_join`: a workgroup adds both pieces of the block that another begins within."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, cast, exit_unless, i32, i64, kernel, load, ptr, store, workgroup_id
from ckmlir.ops.attention.backward.fmha_bwd_convert_dq_kernel import VECTOR
from ckmlir.ops.attention.backward.fmha_bwd_join import JoinSpec
from ckmlir.ops.attention.backward.key_blocks import boundary
from ckmlir.ops.attention.backward.shares_kernel import block_at, bounding, slot_of_piece
from ckmlir.ops.attention.backward.slots_operator import WAVES
from ckmlir.ops.attention.backward.walks_kernel import sides
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.ops.attention.loop.work_kernel import last
from ckmlir.targets import Target


def build(spec: JoinSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"slots": ptr("f32"), **dict.fromkeys(spec.lists, ptr("i32")), "costs": ptr("i32")}
    arguments |= {"dk": ptr(spec.dtype), **dict.fromkeys(("sq", "sk", "sequences"), i32), **bounding(spec.mask)}
    arguments |= {"dk_seq": i32, "dk_head": i64, "dk_batch": i64}
    tile = (spec.block[1], spec.d_tile)

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def join(given: Any) -> None:
        own, costs = workgroup_id(0) + 1, given.costs
        cost = own * costs.scalar(given.sequences + 1)
        exit_unless(cost < costs.scalar(given.sequences))
        batch = last(lambda sequence: costs.scalar(sequence) <= cost, given.sequences)
        at = block_at(spec, given, batch, cost, varied=True)
        exit_unless(boundary(cost, at.begin, at.end).equals(cost))
        exit_unless(cost > at.begin)
        _, k = sides(spec, given, batch)
        pieces = [slot_of_piece(given.slots, one, spec.block[1], spec.d).pad(*tile) for one in (own * 2 - 1, own * 2)]
        front, back = (load(one.window(tile, (0, 0)), coalesced(tile, WAVES, 1, VECTOR)) for one in pieces)
        dk = rows_of_head(given, "dk", at.head, k, spec.d, spec.row_multiple).pad(*tile)
        store(cast(front + back, spec.dtype), dk.window(tile, (at.place * spec.block[1], 0)))

    return join
