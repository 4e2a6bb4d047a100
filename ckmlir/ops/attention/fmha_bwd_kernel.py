"""The main kernel of attention backward as tile code: a workgroup keeps a block of keys and goes over the queries
of one head; which blocks, a walk says."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Scalar, View, cast, f32, i32, i64, kernel, ptr
from ckmlir.ops.attention.backward_bias_kernel import stored
from ckmlir.ops.attention.backward_dropout_kernel import dropped
from ckmlir.ops.attention.backward_loop_kernel import Form, Kept, Queries, differentiate, keep_keys
from ckmlir.ops.attention.backward_parts_kernel import spans
from ckmlir.ops.attention.backward_scores_kernel import EXPONENTS
from ckmlir.ops.attention.backward_walks_kernel import WALKS, Turn
from ckmlir.ops.attention.fmha_bwd_spec import BACKWARD_PARTS, STRIDED, FmhaBwdSpec
from ckmlir.ops.attention.heads_kernel import rows_of_head, values_of_head
from ckmlir.ops.attention.part import ScorePart, WeightPart, find_part
from ckmlir.ops.spec import by
from ckmlir.targets import Target

ACCUMULATOR_GROUP = 4
"""Consecutive queries that a lane holds of a matrix instruction's result."""
KEPT = {"dropout": dropped}
"""By the name of a part that does something to the softmax."""
SLOPES = {"dbias": stored}
"""By the name of a part that writes dS."""


def build(spec: FmhaBwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    form = _form(spec, target)
    words = [(find_part(BACKWARD_PARTS, word), word) for word in spec.parts]
    changes = [(kind.name, word) for kind, word in words if issubclass(kind, ScorePart)]
    drops = [(kind, word) for kind, word in words if issubclass(kind, WeightPart)]
    leaving = [(kind.name, word) for kind, word in words if not issubclass(kind, (ScorePart, WeightPart))]

    @kernel(spec.name, target=target, waves=spec.waves, arguments=_arguments(spec))
    def fmha_bwd(given: Any) -> None:
        def differentiated(turn: Turn) -> None:
            work = turn.work

            def rows(name: str, head: Scalar) -> View:
                side, block = (work.q, form.queries) if name in ("q", "do") else (work.k, form.keys)
                channels, tile = (spec.d, form.d) if name in ("q", "k", "dk") else (spec.dv, form.dv)
                return rows_of_head(given, name, head, side, channels, spec.row_multiple).pad(block, tile)

            def by_query(name: str) -> View:
                return values_of_head(given, name, work.head, work.q).pad(form.queries)

            keys = keep_keys(form, rows("k", work.shared), rows("v", work.shared), work.first)
            factors = [one for kind, word in drops if (one := kind.factor(word, given)) is not None]
            queries = Queries(
                rows("q", work.head), rows("do", work.head), by_query("exponent"), by_query("delta"),
                given.exponent_scale,
                [EXPONENTS[name](word, given, work, form) for name, word in changes],
                next((KEPT[kind.name](word, given, work, form) for kind, word in drops), Kept()),
                [SLOPES[name](word, given, work, form, factors) for name, word in leaving],
            )  # fmt: skip
            sums = form.nothing()
            for span in spans(spec, given, form, work):
                own = turn.narrowed(span)
                sums = differentiate(form, keys, queries, own, turn.sink, sums, Schedule.parse(spec.schedule_text))
            for factor in factors:
                sums = [one * factor for one in sums]
            dk, dv = sums
            for name, tile in (("dk", dk * given.scale), ("dv", dv)):
                turn.keep(cast(tile, spec.out), rows(name, work.head).window(tile.lengths, (work.first, 0)))

        WALKS[spec.sink].walk(spec, given, form, differentiated)

    return fmha_bwd


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
        transposes=spec.read_both_ways(target),
    )  # fmt: skip


def _arguments(spec: FmhaBwdSpec) -> dict[str, Any]:
    arguments: dict[str, Any] = {name: ptr(spec.dtype) for name in ("q", "k", "v", "do")}
    arguments |= {name: ptr("f32", alignment=4) for name in ("exponent", "delta")}
    arguments |= {"dq_parts": ptr("f32"), "dk": ptr(spec.out), "dv": ptr(spec.out)}
    arguments |= dict.fromkeys(spec.lists, ptr("i32"))
    arguments |= {"sq": i32, "sk": i32, "rows": i32, "h": i32, "ratio": i32, "scale": f32, "exponent_scale": f32}
    for name in STRIDED:
        arguments |= {f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64}
    if spec.mask != "none":
        arguments |= {"mask_y": i32, "mask_x": i32}
        arguments |= dict.fromkeys(["mask_sink"] * (spec.mask == "sinks") + ["mask_corner"] * spec.varied, i32)
    arguments |= WALKS[spec.sink].arguments()
    for word in spec.parts:
        arguments |= find_part(BACKWARD_PARTS, word).parameters(word)
    return arguments
