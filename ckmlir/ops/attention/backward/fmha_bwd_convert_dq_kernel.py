"""The kernel of `fmha_bwd_convert_dq`: a workgroup adds the parts of a block of queries of one head."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, cast, exit_unless, f32, i32, i64, kernel, load, loop, ptr, stage, store, view, zeros
from ckmlir.lang import workgroup_id as workgroup_at
from ckmlir.ops.attention.backward.block_shares_kernel import BLOCK_SLOTS, slots_by_places
from ckmlir.ops.attention.backward.block_table import BLOCKS
from ckmlir.ops.attention.backward.fmha_bwd_convert_dq import ConvertDqSpec
from ckmlir.ops.attention.backward.shares_kernel import SLOTS, bounding, slots_by_workgroups
from ckmlir.ops.attention.backward.slots_operator import WAVES
from ckmlir.ops.attention.backward.walks_kernel import sides
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.targets import Target

SCHEDULE = "schedule convert_dq 1; ahead load 2"
"""Loads of the next parts are on their way while one is added."""
VECTOR = 4
SLOTS_OF_HEADS = {"steps": slots_by_workgroups, BLOCKS: slots_by_places}
ARGUMENTS = {"steps": SLOTS, BLOCKS: BLOCK_SLOTS}
"""By what ranges of workgroups end behind."""


def build(spec: ConvertDqSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"dq_parts": ptr("f32"), **dict.fromkeys(spec.lists, ptr("i32")), "costs": ptr("i32")}
    arguments |= {"dq": ptr(spec.dtype), **dict.fromkeys(("sq", "sk", "rows", "h"), i32), **ARGUMENTS[spec.ranges]}
    arguments |= {**bounding(spec.mask), "alpha": f32, "dq_seq": i32, "dq_head": i64, "dq_batch": i64}
    rows, _ = spec.block
    tile = (rows, spec.d_tile)
    lies = coalesced(tile, WAVES, 1, VECTOR)

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def convert_dq(given: Any) -> None:
        first, head, batch = workgroup_at(0) * rows, workgroup_at(1), workgroup_at(2)
        q, _ = sides(spec, given, batch)
        exit_unless(first < q.length)
        slots = SLOTS_OF_HEADS[spec.ranges](spec, given, q, batch, head)
        with loop(0, slots.total, 1, carry=[zeros(tile, "f32", lies)], schedule=Schedule.parse(SCHEDULE)) as step:
            with stage("load"):
                slot = slots.at(step.index)
                low, high = (given.written.scalar(slot.place * 2 + one) for one in (0, 1))
                there = (first - low).below(high - low).select(q.length, 0)
                part = view(slot.begin, (there, spec.d), (spec.d, 1)).pad(*tile)
                loaded = load(part.window(tile, (first, 0)), lies)
            with stage("add"):
                step.carry(step.carried[0] + loaded)
        total = step.results[0] * given.alpha
        dq = rows_of_head(given, "dq", head, q, spec.d, spec.row_multiple)
        store(cast(total, spec.dtype), dq.pad(*tile).window(tile, (first, 0)))

    return convert_dq
