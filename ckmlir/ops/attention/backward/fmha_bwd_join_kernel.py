"""The kernel of `fmha_bwd_join`: a workgroup adds the pieces of the block that another is the first to begin within."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    cast,
    exit_unless,
    i32,
    i64,
    kernel,
    load,
    loop,
    ptr,
    store,
    workgroup_id,
)
from ckmlir.ops.attention.backward.fmha_bwd_convert_dq_kernel import VECTOR
from ckmlir.ops.attention.backward.fmha_bwd_join import JoinSpec
from ckmlir.ops.attention.backward.key_blocks import boundary
from ckmlir.ops.attention.backward.shares_kernel import (
    NUMBERS,
    block_at,
    bounding,
    key_blocks,
    sequence_before,
    slot_of_piece,
)
from ckmlir.ops.attention.backward.slots_operator import WAVES
from ckmlir.ops.attention.backward.walks_kernel import sides
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.targets import Target


def build(spec: JoinSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"slots": ptr("f32"), **dict.fromkeys(spec.lists, ptr("i32")), "costs": ptr("i32")}
    arguments |= {"dk": ptr(spec.dtype), "sq": i32, "sk": i32, **NUMBERS}
    arguments |= {**bounding(spec.mask), "dk_seq": i32, "dk_head": i64, "dk_batch": i64}
    tile = (spec.block[1], spec.d_tile)

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def join(given: Any) -> None:
        own, costs = workgroup_id(0) + 1, given.costs
        share = costs.scalar(given.sequences + 1)
        cost = own * share
        exit_unless(cost < costs.scalar(given.sequences))
        batch = sequence_before(given, cost)
        at = block_at(key_blocks(spec, given, batch), cost - 1)
        exit_unless(boundary(cost, at.begin, at.end, given.beside, given.uncut).equals(cost))
        exit_unless(cost < at.end)
        exit_unless(boundary(cost - share, at.begin, at.end, given.beside, given.uncut).equals(at.begin))
        _, k = sides(spec, given, batch)

        def piece(place: Scalar) -> Tile:
            there = slot_of_piece(given.slots, place, spec.block[1], spec.d).pad(*tile)
            return load(there.window(tile, (0, 0)), coalesced(tile, WAVES, 1, VECTOR))

        with loop(own, (at.end - 1) // share + 1, 1, carry=[piece(own * 2 - 1)]) as step:
            step.carry(step.carried[0] + piece(step.index * 2))
        dk = rows_of_head(given, "dk", at.head, k, spec.d, spec.row_multiple).pad(*tile)
        store(cast(step.results[0], spec.dtype), dk.window(tile, (at.place * spec.block[1], 0)))

    return join
