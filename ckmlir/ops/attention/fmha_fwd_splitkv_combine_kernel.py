"""The kernel of `fmha_fwd_splitkv_combine`: a workgroup takes queries of one head, and one part after the other."""

from __future__ import annotations

from math import inf
from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Scalar,
    View,
    cast,
    exit_unless,
    exp2,
    full,
    i32,
    i64,
    kernel,
    load,
    log2,
    loop,
    maximum,
    ptr,
    stage,
    store,
    view,
    where,
    workgroup_id,
    zeros,
)  # fmt: skip
from ckmlir.ops.attention.fmha_fwd_splitkv_combine import MULTIPLE, VECTOR, WAVES, CombineSpec
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.ops.attention.loop.work_kernel import side_of
from ckmlir.ops.precision import LN_2, LOG2_E
from ckmlir.targets import Target

UNSIGNED = (1 << 32) - 1
SCHEDULE = "schedule combine 1; ahead load 2"


def build(spec: CombineSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"o_parts": ptr("f32"), "lse_parts": ptr("f32", alignment=4), "o": ptr(spec.out)}
    if spec.lse:
        arguments |= {"lse": ptr("f32", alignment=4)}
    if "start" in spec.queries:
        arguments |= {"seqstart_q": ptr("i32")}
    if "length" in spec.queries:
        arguments |= {"seqlen_q": ptr("i32")}
    if spec.counted:
        arguments |= {"counts": ptr("i32")}
    arguments |= {"splits": i32, "sq": i32, "h": i32, "rows": i32, "part_rows": i64}
    arguments |= {"o_seq": i32, "o_head": i64, "o_batch": i64}
    rows, _ = tile = spec.tile
    lies = coalesced(tile, WAVES, 1, VECTOR)
    by_row = lies.reduce(1)

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def combine(given: Any) -> None:
        first, head, batch = workgroup_id(0) * rows, workgroup_id(1), workgroup_id(2)
        queries = side_of(spec.queries, given, "q", batch, given.sq)
        if spec.queries:
            exit_unless(first < queries.length)
        parts = given.counts.scalar(batch) if spec.counted else given.splits
        count = given.rows.to("i64")
        row = head.to("i64") * count + queries.origin(1, given.h.to("i64") * count)
        first_part = given.o_parts.offset(row * spec.dv)

        def behind(number: Scalar) -> Scalar:
            """Rows of the parts in front of one. Unsigned, which spares half of the product."""
            found: Scalar = (number.to("i64") & UNSIGNED) * given.part_rows
            return found

        def part(number: Scalar) -> View:
            return view(first_part.offset(behind(number) * spec.dv), (queries.length, spec.dv), (spec.dv, 1)).pad(*tile)

        def logarithms(pointer: Any) -> Any:
            return view(pointer.offset(row), (queries.length,), (1,)).pad(rows).window((rows,), (first,))

        nothing = [zeros(tile, "f32", lies), full((rows,), -inf, "f32", by_row), zeros((rows,), "f32", by_row)]
        with loop(0, parts, 1, carry=nothing, schedule=Schedule.parse(SCHEDULE)) as step:
            o, before, total = step.carried
            with stage("load"):
                one = load(part(step.index).window(tile, (first, 0)), lies)
                lse = load(logarithms(given.lse_parts.offset(behind(step.index))), by_row)
            with stage("add"):
                largest = maximum(before, lse)
                shift = where(largest > -inf, largest, 0.0)
                decay, weight = (exp2((power - shift) * LOG2_E) for power in (before, lse))
                step.carry(o * decay[:, None] + one * weight[:, None], largest, total * decay + weight)
        o, largest, total = step.results
        none = total.equals(0.0)  # not of a total that is NaN
        some = where(none, 1.0, total)
        mean = o * (1.0 / some)[:, None]
        place = rows_of_head(given, "o", head, queries, spec.dv, MULTIPLE if spec.out != "f32" else VECTOR)
        store(cast(mean, spec.out), place.pad(*tile).window(tile, (first, 0)))
        if spec.lse:
            store(where(none, -inf, largest + log2(some) * LN_2), logarithms(given.lse))

    return combine
