"""The kernel of `fmha_bwd_dot_do_o`: a workgroup takes a block of queries of one head, a row in neighbouring lanes."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    cast,
    exp2,
    f32,
    i32,
    i64,
    kernel,
    load,
    maximum,
    minimum,
    ptr,
    reduce_sum,
    store,
    stretch,
    view,
    workgroup_id,
)
from ckmlir.ops.attention.backward.fmha_bwd_dot_do_o import ROWS, WAVES, DotDoOSpec
from ckmlir.ops.attention.fmha_fwd_spec import row_multiple
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head, values_of_head
from ckmlir.ops.attention.loop.work_kernel import side_of
from ckmlir.ops.precision import LOG2_E
from ckmlir.targets import Target


def build(spec: DotDoOSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {name: ptr(spec.dtype) for name in ("o", "do")}
    arguments |= {name: ptr("f32", alignment=4) for name in ("lse", "delta", "exponent")}
    arguments |= dict.fromkeys(["sink", "sink_parts"] * spec.sink, ptr("f32", alignment=4))
    arguments |= dict.fromkeys(spec.lists, ptr("i32"))
    arguments |= {"sq": i32, "rows": i32, "h": i32, "factor": f32}
    for name in ("o", "do"):
        arguments |= {f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64}
    tile, multiple = (ROWS, spec.dv_tile), row_multiple(spec.dtype)
    lies = coalesced(tile, WAVES, 1, multiple)
    by_row = lies.reduce(1)
    in_a_row = Distribution(by_row.replicated, ((), *by_row.dims))

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def dot_do_o(given: Any) -> None:
        first, head, batch = (workgroup_id(axis) for axis in range(3))
        place, side = first * ROWS, side_of(spec.sequences, given, "q", batch, given.sq)

        def rows(name: str) -> Any:
            array = rows_of_head(given, name, head, side, spec.dv, multiple)
            return cast(load(array.pad(*tile).window(tile, (place, 0)), lies), "f32")

        def by_query(name: str) -> Any:
            return values_of_head(given, name, head, side).pad(ROWS).window((ROWS,), (place,))

        delta = -(reduce_sum(rows("o") * rows("do"), 1) * given.factor)
        exponent = load(by_query("lse"), delta.type.distribution) * LOG2_E
        store(delta, by_query("delta"))
        store(exponent, by_query("exponent"))
        if spec.sink:
            weights = minimum(maximum(exp2(given.sink.scalar(head) * LOG2_E - exponent), 0.0), 1.0)
            total = reduce_sum(stretch(weights * delta, 0, 1, in_a_row), 1)
            blocks = (given.sq + (ROWS - 1)) // ROWS
            part = (batch * blocks + first).to("i64") * given.h.to("i64") + head.to("i64")
            store(total, view(given.sink_parts.offset(part), (1,), (1,)).window((1,), (0,)))

    return dot_do_o
