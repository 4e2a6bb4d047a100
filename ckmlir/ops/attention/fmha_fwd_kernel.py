"""The attention forward kernel as tile code: one workgroup computes a block of queries of one head."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, View, f32, i32, i64, kernel, load, ptr, view
from ckmlir.ops.attention.epilogue_kernel import Output
from ckmlir.ops.attention.fmha_fwd_spec import WEIGHT_EXPONENT, FmhaFwdSpec, channel_multiple
from ckmlir.ops.attention.keys_kernel import Rows
from ckmlir.ops.attention.loop_kernel import Form, attend, nothing
from ckmlir.ops.attention.weights_kernel import Softmax
from ckmlir.ops.attention.work_kernel import Work, block_of_grid, rows_of_head, span_of
from ckmlir.targets import Target

ACCUMULATOR_GROUP = 4
"""Consecutive columns that a lane holds of a matrix instruction's result."""


def build(spec: FmhaFwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    form = _form(spec, target)
    boost = WEIGHT_EXPONENT[target.fp8] if spec.dtype == "fp8" and target.fp8 else 0

    @kernel(spec.name, target=target, waves=spec.waves, arguments=_arguments(spec))
    def fmha_fwd(given: Any) -> None:
        work = block_of_grid(spec, given)
        q = load(
            _rows(spec, given, work, "q").pad(form.queries, form.d).window((form.queries, form.d), (work.first, 0)),
            form.scores.a_over(form.waves, form.queries, form.d),
        )
        k = _rows(spec, given, work, "k").pad(form.keys, form.d)
        v = _rows(spec, given, work, "v").permute(1, 0).pad(form.dv, form.keys)
        weights = Softmax(lambda scores: scores * given.scale, boost)
        sums = attend(
            form, q, span_of(spec, given, work, form), Rows(form, k, v), weights, nothing(form, weights),
            Schedule.parse(spec.schedule_text),
        )  # fmt: skip
        Output(
            _rows(spec, given, work, "o").pad(form.queries, form.dv),
            _logarithms(given, work).pad(form.queries) if spec.lse else None,
            spec.out,
            work.first,
            weights.exponent,
            boost,
            given.v_scale if spec.scaled else None,
        ).write(sums)

    return fmha_fwd


def _form(spec: FmhaFwdSpec, target: Target) -> Form:
    queries, keys = spec.block
    shape = "x".join(map(str, spec.mfma))
    scores = Mma.select(target, shape, spec.dtype, block_k=spec.d_tile, transposed=True)
    values = Mma.select(target, shape, spec.dtype, block_k=keys, transposed=True).with_k_chunk(ACCUMULATOR_GROUP)
    return Form(queries, keys, spec.d_tile, spec.dv_tile, spec.dtype, (spec.waves, 1), scores, values)


def _arguments(spec: FmhaFwdSpec) -> dict[str, Any]:
    arguments: dict[str, Any] = {name: ptr(spec.out if name == "o" else spec.dtype) for name in "qkvo"}
    if spec.lse:
        arguments["lse"] = ptr("f32", alignment=4)
    arguments.update(sq=i32, sk=i32, h=i32, ratio=i32, scale=f32)
    if spec.scaled:
        arguments.update(v_scale=f32)
    for name in "qkvo":
        arguments.update({f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64})
    if spec.mask != "none":
        arguments.update(mask_y=i32, mask_x=i32)
    return arguments


def _rows(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, name: str) -> View:
    """The head's rows of an array (queries or keys, channels)."""
    length = work.sq if name in "qo" else work.sk
    channels = spec.d if name in "qk" else spec.dv
    row = getattr(given, f"{name}_seq").multiple_of(channel_multiple(spec.out if name == "o" else spec.dtype))
    return view(rows_of_head(spec, given, work, name), (length, channels), (row, 1))


def _logarithms(given: SimpleNamespace, work: Work) -> View:
    """The head's LSE (queries)."""
    position = (work.batch * given.h + work.head).to("i64") * work.sq.to("i64")
    return view(given.lse.offset(position), (work.sq,), (1,))
