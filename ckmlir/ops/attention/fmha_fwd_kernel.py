"""The attention forward kernel as tile code: one workgroup computes a block of queries of one head."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Scalar, View, f32, i32, i64, kernel, ptr
from ckmlir.ops.attention.fmha_fwd_spec import WEIGHT_EXPONENT, FmhaFwdSpec, row_multiple, shape_for_values
from ckmlir.ops.attention.level import MOST
from ckmlir.ops.attention.loop.epilogue_kernel import Output
from ckmlir.ops.attention.loop.loop_kernel import Form, Score, Weights, attend, nothing
from ckmlir.ops.attention.loop.scales_kernel import Scaling, Uniform
from ckmlir.ops.attention.loop.spans_kernel import Reach, spans_of
from ckmlir.ops.attention.loop.storage_kernel import Packed, Storage
from ckmlir.ops.attention.loop.weights_kernel import softmax
from ckmlir.ops.attention.loop.work_kernel import Work, block_of_grid
from ckmlir.ops.attention.orders import DEALT, IN_ONE_ROW
from ckmlir.ops.attention.paged_spec import gathers
from ckmlir.ops.attention.part import KeyPart, Part, ScalePart, ScorePart, WeightPart, find_part
from ckmlir.ops.attention.schedule_choice import lazy
from ckmlir.ops.attention.source import Source, find_source
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.spec import by
from ckmlir.targets import Target


def build(spec: FmhaFwdSpec, target: Target, kinds: Sequence[type[Part]], sources: Sequence[type[Source]]) -> Kernel:
    """Trace the kernel of a specification whose parts, and source of K and V, are of these kinds."""
    form = form_of(spec, target)
    boost = WEIGHT_EXPONENT[target.fp8] if spec.values == "fp8" and target.fp8 else 0
    parts = [(find_part(kinds, word), word) for word in spec.parts]
    source = find_source(sources, spec.source)

    @kernel(spec.name, target=target, waves=spec.waves, arguments=_arguments(spec, source, parts))
    def fmha_fwd(given: Any) -> None:
        work = block_of_grid(spec, given, form)
        work = replace(work, pages=source.pages_of(spec.source, given, work))
        storage = storage_of(spec)
        tile = form.queries, storage.size(form.d)
        window = _rows(spec, given, work, "q").pad(*tile).window(tile, (work.first, 0))
        q = storage.queries(window, form.scores.a_over(form.waves, form.queries, form.d))
        chosen = partial(_chosen, parts, given, work, form)
        scaling = _scaling(parts, given, work, form)
        products = scaling.products(form, storage)
        scores, units = scaling.around(_scores(parts, given, work, form))
        level = all(kind.levels for kind, _ in parts if issubclass(kind, WeightPart))
        most = MOST.get(spec.values, 0.0) if _is_lazy(spec, target) else 0.0
        plain = softmax(units, boost, spec.slack, level=level, most=most)
        weights = _weights(parts, plain, given, work, form)
        where, sums = source.traced(spec.source, given, spec, work, form), nothing(form, weights)
        for span, schedule in spans_of(spec, given, work, form, scores, chosen):
            share = work.share.narrowed(span, form.keys)
            sums = attend(products, q, share, where, weights, sums, Schedule.parse(schedule))
        Output(
            _rows(spec, given, work, "o").pad(form.queries, form.dv),
            _logarithms(given, work).pad(form.queries) if spec.lse else None,
            spec.out,
            work.first,
            weights,
            [*_factors(spec, parts, given), *scaling.factors],
            scaling.channels,
        ).write(sums)

    return fmha_fwd


def form_of(spec: FmhaFwdSpec, target: Target) -> Form:
    """What a workgroup of this kernel multiplies in a step."""
    queries, keys = spec.block
    second = shape_for_values(spec.mfma, spec.dtype, spec.values, target)
    scores = Mma.select(target, by(spec.mfma), spec.dtype, block_k=spec.d_tile, transposed=True)
    values = Mma.select(target, by(second), spec.values, block_k=keys, transposed=True)
    scores, values = _in_place(scores, values, own=bool(spec.parts or spec.source) or find_dtype(spec.values).bytes > 1)
    full = _weaves(spec) and not target.has("lds_transpose_read")
    if not spec.scaled_by_instruction and not full and not _turns_bytes(spec, target):
        values = _in_vectors(values, row_multiple(spec.out))
    waves = spec.along_queries, spec.along_keys
    return Form(queries, keys, spec.d_tile, spec.dv_tile, spec.values, waves, scores, values)


def _turns_bytes(spec: FmhaFwdSpec, target: Target) -> bool:
    """Whether V has elements of a byte that reads of LDS turn: neither keys of a channel nor, in pages of vectors, some
    of them lie side by side in memory."""
    bits, lies = 8 * find_dtype(spec.values).bytes, spec.v_columns == 0 and "vectors" not in spec.source.split("_")
    return bits == 8 and lies and target.transposed_elements(bits) > 0


def _weaves(spec: FmhaFwdSpec) -> bool:
    """Whether arithmetic is woven between matrix instructions in any of the loops."""
    return any(Schedule.parse(text).order == "weave" for text in spec.loops.values())


def _is_lazy(spec: FmhaFwdSpec, target: Target) -> bool:
    """See `schedule_choice.lazy`."""
    tile, listed = max(spec.d_tile, spec.dv_tile), gathers(spec.source, spec.block[1])
    return lazy(spec.parts, tile, spec.mask, weaves=_weaves(spec), listed=listed, target=target)


def _in_place(scores: Mma, values: Mma, *, own: bool) -> tuple[Mma, Mma]:
    """Products of which the second takes weights where the first leaves scores: neighbouring keys of a lane are those
    of an operand's vector, so that V is read in the longest pieces.

    Args:
        own: scores lie as the instruction has them, in groups of four keys, as parts expect them that scale few keys or
            draw for them, and V is read in pieces of so many. Of 16 bits four keys are half a vector, and twice as many
            change nothing in the model's time.
    """
    vector = values.k_pack * values.instruction.chunk(values.b_dtype)
    if own or scores.instruction.acc_per_lane % vector or vector < scores.instruction.acc_group:
        return scores, values.with_k_chunk(scores.instruction.acc_group)
    return scores.with_run(vector), values


def _in_vectors(values: Mma, run: int) -> Mma:
    """The second product with `run` neighbouring channels of O in a lane, a whole vector of what is stored, where an
    instruction leaves a lane so many: a store of its own four takes as many cycles for less.

    Where instructions scale, they want rows in their own order, and so do reads of LDS that turn bytes, of which a lane
    takes eight neighbours. Where V is turned on its way to LDS such rows take up to four registers more, of which a
    woven loop has none left.
    """
    joins = values.instruction.acc_group < run and values.instruction.acc_per_lane % run == 0
    return values.with_run(run) if joins else values


def storage_of(spec: FmhaFwdSpec) -> Storage:
    """How Q, K and V lie in memory."""
    return Packed(spec.stored, spec.dtype, bool(spec.v_columns)) if spec.stored else Storage()


Parts = Sequence[tuple[type[Part], str]]
"""Kinds of parts with their words."""


def _arguments(spec: FmhaFwdSpec, source: type[Source], parts: Parts) -> dict[str, Any]:
    types = (spec.dtype, spec.dtype, spec.values) if not spec.stored else ("i8",) * 3
    arguments: dict[str, Any] = {name: ptr(dtype) for name, dtype in zip("qkvo", (*types, spec.out), strict=True)}
    if spec.lse:
        arguments["lse"] = ptr("f32", alignment=4)
    arguments.update(dict.fromkeys(spec.lists, ptr("i32")))
    arguments.update(sq=i32, sk=i32, h=i32, ratio=i32, scale=f32)
    if spec.lse:
        arguments.update(lse_rows=i32)
    if spec.scaled:
        arguments.update(v_scale=f32)
    for name in "qkvo":
        arguments.update({f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64})
    if spec.mask != "none":
        arguments.update(mask_y=i32, mask_x=i32)
        arguments.update(dict.fromkeys(["mask_sink"] * (spec.mask == "sinks") + ["mask_corner"] * spec.varied, i32))
    arguments.update(source.parameters(spec.source))
    for kind, word in parts:
        arguments.update(kind.parameters(word))
    if spec.order in IN_ONE_ROW:
        arguments.update(count=i32)
    if spec.split:
        counts = {"counts": ptr("i32"), "begins": ptr("i32")} if spec.order == DEALT else {"splits": i32}
        arguments.update(counts, o_part=i64, lse_part=i64)
    return arguments


def _scores(parts: Parts, given: SimpleNamespace, work: Work, form: Form) -> list[Score]:
    """What is done to exponents before the mask."""
    return [kind.traced(word, given, work, form) for kind, word in parts if issubclass(kind, ScorePart)]


def _scaling(parts: Parts, given: SimpleNamespace, work: Work, form: Form) -> Scaling:
    """What makes exponents of products."""
    found = [kind.traced(word, given, work, form) for kind, word in parts if issubclass(kind, ScalePart)]
    return found[0] if found else Uniform(given.scale)


def _chosen(parts: Parts, given: SimpleNamespace, work: Work, form: Form, reach: Reach) -> Reach:
    """The keys that parts leave of those in reach."""
    for kind, word in parts:
        if issubclass(kind, KeyPart):
            reach = kind.traced(word, given, work, form, reach)
    return reach


def _weights(parts: Parts, weights: Weights, given: SimpleNamespace, work: Work, form: Form) -> Weights:
    for kind, word in parts:
        if issubclass(kind, WeightPart):
            weights = kind.traced(word, given, work, form, weights)
    return weights


def _factors(spec: FmhaFwdSpec, parts: Parts, given: SimpleNamespace) -> list[Scalar]:
    """What O is multiplied with."""
    found = [kind.factor(word, given) for kind, word in parts if issubclass(kind, WeightPart)]
    return [*([given.v_scale] if spec.scaled else []), *(one for one in found if one is not None)]


def _rows(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, name: str) -> View:
    """The head's rows (queries, channels) of q or o."""
    channels, dtype = (spec.dv, spec.out) if name == "o" else (storage_of(spec).size(spec.d), spec.dtype)
    pointer = work.share.place(name, getattr(given, name))
    by_head, by_batch = getattr(given, f"{name}_head"), getattr(given, f"{name}_batch")
    multiple = row_multiple(dtype)
    row, by_head = getattr(given, f"{name}_seq").multiple_of(multiple), by_head.multiple_of(multiple)
    start = pointer.offset(work.q.origin(row, by_batch).multiple_of(multiple))
    return work.rows.view(start, by_head, work.sq, row, (channels, 1))


def _logarithms(given: SimpleNamespace, work: Work) -> View:
    """The head's LSE (queries)."""
    rows = given.lse_rows.to("i64")
    start = work.share.place("lse", given.lse).offset(work.q.origin(1, given.h.to("i64") * rows))
    return work.rows.view(start, rows, work.sq, 1)
