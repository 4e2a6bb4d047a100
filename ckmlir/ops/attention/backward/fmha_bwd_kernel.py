"""The main kernel of attention backward as tile code: a workgroup keeps a block of keys and goes over the queries
of one head; which blocks, a walk says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Scalar, Tile, View, f32, i32, i64, kernel, ptr
from ckmlir.ops.attention.backward.bias_kernel import stored
from ckmlir.ops.attention.backward.block_shares_kernel import SharedBlocks
from ckmlir.ops.attention.backward.dropout_kernel import dropped
from ckmlir.ops.attention.backward.fmha_bwd_spec import KEPT, STRIDED, FmhaBwdSpec
from ckmlir.ops.attention.backward.heads_kernel import Whole
from ckmlir.ops.attention.backward.hstu_queries_kernel import hstu_queries
from ckmlir.ops.attention.backward.keys_loop_kernel import KeyRows, differentiate_keys, keep_queries, leave_nothing
from ckmlir.ops.attention.backward.loop_kernel import Form, Kept, Queries, differentiate, keep_keys
from ckmlir.ops.attention.backward.parts_kernel import Attending, Masked
from ckmlir.ops.attention.backward.scores_kernel import EXPONENTS
from ckmlir.ops.attention.backward.shares_kernel import Shared
from ckmlir.ops.attention.backward.silu_kernel import gated
from ckmlir.ops.attention.backward.softmax_kernel import ROWS, softmax
from ckmlir.ops.attention.backward.walks_kernel import WALKS as ALONE
from ckmlir.ops.attention.backward.walks_kernel import Keeping, Turn, Walk
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.ops.attention.loop.work_kernel import Work
from ckmlir.ops.attention.part import KeyPart, Part, ScorePart, WeightPart, find_part
from ckmlir.ops.spec import by
from ckmlir.targets import Target

ACCUMULATOR_GROUP = 4
"""Consecutive queries that a lane holds of a matrix instruction's result."""
DROPPING = {"dropout": dropped}
"""By the name of a part that says which weights count."""
WEIGHTS = {"silu": gated}
"""By the name of a part that has weights which are no softmax's."""
KEYS = {"hstu": hstu_queries}
"""By the name of a part that says which keys queries attend to."""
WALKS: Mapping[str, Walk] = {**ALONE, "shares": Shared(), "blocks": SharedBlocks(), "heads": Whole()}
"""By `FmhaBwdSpec.sink`."""
SLOPES = {"dbias": stored}
"""By the name of a part that writes dS."""


def build(spec: FmhaBwdSpec, target: Target, kinds: Sequence[type[Part]]) -> Kernel:
    """Trace the kernel of a specification whose parts are of these kinds."""
    form = _form(spec, target)
    words = [(find_part(kinds, word), word) for word in spec.parts]
    changes = [(kind.name, word) for kind, word in words if issubclass(kind, ScorePart)]
    choosing = [(KEYS[kind.name], word) for kind, word in words if issubclass(kind, KeyPart)]
    weighing = [(kind, word) for kind, word in words if issubclass(kind, WeightPart)]
    leaving = [(SLOPES[kind.name], word) for kind, word in words if kind.name in SLOPES]
    drops = [(DROPPING[kind.name], word) for kind, word in weighing if kind.name in DROPPING]
    weights = next((WEIGHTS[kind.name] for kind, _ in weighing if kind.name in WEIGHTS), softmax)

    @kernel(spec.name, target=target, waves=spec.waves, arguments=_arguments(spec, words))
    def fmha_bwd(given: Any) -> None:
        schedule = Schedule.parse(spec.schedule_text)
        factors = [one for kind, word in weighing if (one := kind.factor(word, given)) is not None]

        def rows(name: str, head: Scalar, work: Work) -> View:
            side, block = (work.q, form.queries) if name in ("q", "do") else (work.k, form.keys)
            channels, tile = (spec.d, form.d) if name in ("q", "k", "dk") else (spec.dv, form.dv)
            return rows_of_head(given, name, head, side, channels, spec.row_multiple).pad(block, tile)

        def queries_of(work: Work) -> Queries:
            parts = [EXPONENTS[name](word, given, work, form, alone=len(words) == 1) for name, word in changes]
            kept = next((one(word, given, work, form) for one, word in drops), Kept())
            return Queries(
                rows("q", work.head, work), rows("do", work.head, work),
                weights(given, work, form, given.exponent_scale, parts, kept),
                [one(word, given, work, form, factors) for one, word in leaving],
                move=not words,
            )  # fmt: skip

        def attending(work: Work) -> Attending:
            chosen = (one(word, given, work, form) for one, word in choosing)
            return next(chosen, Masked(spec, given, form, work))

        def leave(turn: Turn, name: str, tile: Tile) -> None:
            for factor in factors:
                tile = tile * factor
            tile = tile * given.scale if name == "dk" else tile
            place = rows(name, turn.work.head, turn.work).window(tile.lengths, (turn.work.first, 0))
            turn.keep(name, tile, place, spec.out)

        def walked_over_queries(turn: Turn) -> None:
            work = turn.work
            keys = keep_keys(form, rows("k", work.shared, work), rows("v", work.shared, work), work.first)
            queries, sums = queries_of(work), form.nothing()
            for span in attending(work).spans:
                sums = differentiate(form, keys, queries, turn.narrowed(span), turn.sink, sums, schedule)
            for name, tile in zip(("dk", "dv"), sums, strict=True):
                leave(turn, name, tile)

        def walked_over_keys(turn: Keeping) -> None:
            work = turn.work
            k, v = (rows(name, work.shared, work) for name in ("k", "v"))
            keys = KeyRows(k, v, lambda name, tile, first: leave(turn.at(first), name, tile))
            reach = attending(work)
            low, high = reach.attended(turn.low, turn.high)
            dq = differentiate_keys(form, keep_queries(form, queries_of(work)), keys, low, high, reach.masks, schedule)
            turn.sink.put(dq, 0)
            for begin, end in ((turn.low, low), (high, turn.high)):
                leave_nothing(form, keys, begin, end)

        WALKS[spec.sink].walk(spec, given, form, walked_over_keys if spec.sink == KEPT else walked_over_queries)

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


def _arguments(spec: FmhaBwdSpec, words: Sequence[tuple[type[Part], str]]) -> dict[str, Any]:
    arguments: dict[str, Any] = {name: ptr(spec.dtype) for name in ("q", "k", "v", "do")}
    arguments |= {name: ptr("f32", alignment=4) for name in ROWS if spec.sums}
    arguments |= {"dq_parts": ptr("f32"), "dk": ptr(spec.out), "dv": ptr(spec.out)}
    arguments |= dict.fromkeys(spec.lists, ptr("i32"))
    arguments |= {"sq": i32, "sk": i32, "rows": i32, "h": i32, "ratio": i32, "scale": f32, "exponent_scale": f32}
    for name in STRIDED:
        arguments |= {f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64}
    if spec.mask != "none":
        arguments |= {"mask_y": i32, "mask_x": i32}
        arguments |= dict.fromkeys(["mask_sink"] * (spec.mask == "sinks") + ["mask_corner"] * spec.varied, i32)
    arguments |= WALKS[spec.sink].arguments()
    for kind, word in words:
        arguments |= kind.parameters(word)
    return arguments
