"""The main kernel of attention backward as tile code: a workgroup keeps a block of keys and goes over the queries
of one head."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Scalar, cast, f32, i32, i64, kernel, ptr, store, workgroup_id
from ckmlir.ops.attention.backward_loop_kernel import Form, Queries, Sink, differentiate, keep_keys
from ckmlir.ops.attention.backward_parts_kernel import Atomic, Slot, spans
from ckmlir.ops.attention.fmha_bwd_spec import STRIDED, FmhaBwdSpec
from ckmlir.ops.attention.heads_kernel import rows_of_head, values_of_head
from ckmlir.ops.spec import by
from ckmlir.targets import Target

ACCUMULATOR_GROUP = 4
"""Consecutive queries that a lane holds of a matrix instruction's result."""
SINKS = {"atomic": Atomic, "slots": Slot}


def build(spec: FmhaBwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    form = _form(spec, target)

    @kernel(spec.name, target=target, waves=spec.waves, arguments=_arguments(spec))
    def fmha_bwd(given: Any) -> None:
        slot, head, batch = (workgroup_id(axis) for axis in range(3))
        first, shared = slot * form.keys, head // given.ratio

        def rows(name: str, head: Scalar) -> Any:
            length, block = (given.sq, form.queries) if name in ("q", "do") else (given.sk, form.keys)
            channels, tile = (spec.d, form.d) if name in ("q", "k", "dk") else (spec.dv, form.dv)
            return rows_of_head(given, name, head, batch, (length, channels), spec.row_multiple).pad(block, tile)

        keys = keep_keys(form, rows("k", shared), rows("v", shared), first)
        exponent, delta = (values_of_head(given, name, head, batch).pad(form.queries) for name in ("exponent", "delta"))
        queries = Queries(rows("q", head), rows("do", head), exponent, delta, given.exponent_scale)
        sink, sums = _sink(spec, form, given, head, batch, slot), form.nothing()
        y, x = (given.mask_y, given.mask_x) if spec.mask != "none" else (None, None)
        for span in spans(form, spec.mask, first, given.sq, y, x):
            sums = differentiate(form, keys, queries, span, sink, sums, Schedule.parse(spec.schedule_text))
        dk, dv = sums
        for name, tile in (("dk", dk * given.scale), ("dv", dv)):
            store(cast(tile, spec.out), rows(name, head).window(tile.lengths, (first, 0)))

    return fmha_bwd


def _sink(spec: FmhaBwdSpec, form: Form, given: Any, head: Scalar, batch: Scalar, slot: Scalar) -> Sink:
    """The head's part of dQ: packed arrays (slots, batches, heads, queries, d) of f32."""
    place = (batch * given.h + head).to("i64") * given.sq.to("i64") * spec.d
    if spec.sink == "slots":
        place = place + slot.to("i64") * given.slot_stride
    return SINKS[spec.sink](form, given.dq_parts.offset(place), given.sq, spec.d)


def _form(spec: FmhaBwdSpec, target: Target) -> Form:
    queries, keys = spec.block

    def instruction(depth: int) -> Mma:
        return Mma.select(target, by(spec.mfma), spec.dtype, block_k=depth, transposed=True)

    return Form(
        queries, keys, spec.d_tile, spec.dv_tile, spec.dtype, (spec.waves, 1),
        scores=instruction(spec.d_tile),
        slopes=instruction(spec.dv_tile),
        sums=instruction(queries).with_k_chunk(ACCUMULATOR_GROUP),
        queried=Mma.select(target, by(spec.dq_mfma), spec.dtype, block_k=keys),
        queried_waves=spec.dq_waves,
        transposes=target.has("lds_transpose_read"),
    )  # fmt: skip


def _arguments(spec: FmhaBwdSpec) -> dict[str, Any]:
    arguments: dict[str, Any] = {name: ptr(spec.dtype) for name in ("q", "k", "v", "do")}
    arguments |= {name: ptr("f32", alignment=4) for name in ("exponent", "delta")}
    arguments |= {"dq_parts": ptr("f32"), "dk": ptr(spec.out), "dv": ptr(spec.out)}
    arguments |= {"sq": i32, "sk": i32, "h": i32, "ratio": i32, "scale": f32, "exponent_scale": f32}
    for name in STRIDED:
        arguments |= {f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64}
    if spec.mask != "none":
        arguments |= {"mask_y": i32, "mask_x": i32}
    if spec.sink == "slots":
        arguments |= {"slot_stride": i64}
    return arguments
