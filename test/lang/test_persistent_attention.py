"""Attention in loops around its loop: forward over a table of work for sequences of any lengths, and the gradients of
keys and values, block of keys after block of keys. LDS and steady loops are those without the outer loop.

Tolerances: P and dS are rounded to f16 before the second product of each kind, which is 2^-11 of each summand, and
results are rounded to f16; twice the former leaves room for exp2 and f32 sums, whose errors are some 2^-20.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced
from traced_attention import LOWEST, attend, products

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Pointer,
    Scalar,
    Tile,
    View,
    cast,
    coordinates,
    exp2,
    f32,
    i32,
    kernel,
    load,
    loop,
    mma,
    ptr,
    redistribute,
    stage,
    store,
    to_lds,
    view,
    where,
    workgroup_id,
    zeros,
)  # fmt: skip
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

D, WAVES = 64, (4, 1)
LOG2_E = math.log2(math.e)
HALF = 2.0**-11
Floats = np.ndarray[Any, np.dtype[np.float64]]


def instructions(chip: str, rows: int) -> tuple[Mma, Mma]:
    """For products over the channels, and over a block of so many rows."""
    target, shape = get_target(chip), "32x32x16" if chip == "gfx950" else "32x32x8"
    scores = Mma.select(target, shape, "f16", block_k=D, transposed=True)
    return scores, Mma.select(target, shape, "f16", block_k=rows, transposed=True).with_k_chunk(4)


def head_of(pointer: Pointer, row: Scalar, heads: Scalar, head: Scalar) -> Pointer:
    """Where a head's rows begin in an array (rows, heads, D)."""
    return pointer.offset(((row.to("i64") * heads.to("i64") + head.to("i64")) * D).multiple_of(8))


QUERIES, KEYS = 128, 64
ITEM = ("sequence", "head", "first")


@cache
def compile_forward(chip: str, *, persistent: bool = True) -> Compiled:
    """o = softmax(q · kᵀ) · v of sequences that follow each other in memory.

    Workgroup w takes items work[w] to work[w + 1] of a table behind these bounds; not `persistent`: item w.
    """
    of = products(chip, WAVES, QUERIES, KEYS, D)
    arguments = {name: ptr("f16") for name in "qkvo"} | {name: ptr("i32", 4) for name in ("q_start", "k_start", "work")}
    arguments |= {"items": i32, "heads": i32, "scale": f32}

    @kernel("forward", target=get_target(chip), waves=4, arguments=arguments)
    def forward(given: Any) -> None:
        rows = (given.heads * D).multiple_of(D)

        def one(item: Scalar) -> None:
            sequence, head, first = (given.work.scalar(given.items + item * len(ITEM) + n) for n in range(len(ITEM)))
            q0, k0 = given.q_start.scalar(sequence), given.k_start.scalar(sequence)
            sq, sk = given.q_start.scalar(sequence + 1) - q0, given.k_start.scalar(sequence + 1) - k0
            q_rows = view(head_of(given.q, q0, given.heads, head), (sq, D), (rows, 1)).pad(QUERIES, D)
            k_rows = view(head_of(given.k, k0, given.heads, head), (sk, D), (rows, 1)).pad(KEYS, D)
            v_columns = view(head_of(given.v, k0, given.heads, head), (D, sk), (1, rows)).pad(D, KEYS)
            out = view(head_of(given.o, q0, given.heads, head), (sq, D), (rows, 1)).pad(QUERIES, D)
            q = load(q_rows.window((QUERIES, D), (first, 0)), of.scores.a_over(WAVES, QUERIES, D))

            def existing(scores: Tile, _: Tile, key: Scalar) -> Tile:
                return where(coordinates(scores, 1) < sk - key, scores, LOWEST)

            o = attend(of, q, k_rows, v_columns, (0, sk), given.scale, "qr", existing)
            store(cast(o, "f16"), out.window((QUERIES, D), (first, 0)))

        if persistent:
            low, high = given.work.scalar(workgroup_id(0)), given.work.scalar(workgroup_id(0) + 1)
            with loop(low, high, 1) as turn:
                one(turn.index)
        else:
            one(workgroup_id(0))

    return compile_traced(forward)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_loop_of_a_persistent_kernel_is_the_plain_one(chip: str) -> None:
    """The same bytes of LDS and no spills; arithmetic and accesses of the steady loop are equal."""
    made = []
    for persistent in (True, False):
        code = CodeObject.parse(compile_forward(chip, persistent=persistent).hsaco)
        made.append((code.kernels["forward"].metadata, steady_loop(code, "forward").mix))
    (metadata, mix), (plain, plain_mix) = made
    assert metadata.group_segment_size == plain.group_segment_size
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    for kind in ("mfma", "trans", "valu", "lds", "vmem", "barrier"):
        assert mix.get(kind, 0) == plain_mix.get(kind, 0), kind
    assert mix["salu"] <= plain_mix["salu"] + 2


def attention(q: Floats, k: Floats, v: Floats) -> tuple[Floats, Floats]:
    """The result for one head, and the sum of what is added up for it, taken positive."""
    s = q @ k.T / math.sqrt(D)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p @ v, p @ np.abs(v)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_sequences_by_a_table(chip: str) -> None:
    """Sequences of several lengths, one without queries; a workgroup with many items, and one with none."""
    heads, q_lengths, k_lengths = 2, (130, 0, 77), (150, 64, 301)
    random = np.random.default_rng(2)
    starts = [np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32) for lengths in (q_lengths, k_lengths)]
    q, k, v = (random.standard_normal((starts[which][-1], heads, D)).astype(np.float16) for which in (0, 1, 1))
    items = [(n, head, first) for n in range(3) for head in range(heads) for first in range(0, q_lengths[n], QUERIES)]
    bounds = [0, 4, 4, len(items)]
    work = np.array([*bounds, *np.ravel(items)], np.int32)
    arguments = q, k, v, np.full_like(q, np.nan), *starts, work, len(bounds), heads, LOG2_E / math.sqrt(D)
    o = compile_forward(chip).run(*arguments, grid=(3, 1, 1), checks="all")[3].astype(np.float64)
    for n in range(3):
        rows, columns = slice(*starts[0][n : n + 2]), slice(*starts[1][n : n + 2])
        for head in range(heads) if q_lengths[n] else ():
            mine = (one.astype(np.float64)[:, head] for one in (q[rows], k[columns], v[columns]))
            expected, size = attention(*mine)
            assert (np.abs(o[rows, head] - expected) <= HALF * (2 * size + np.abs(expected))).all()


BLOCK, STEP = 128, 32
"""Keys that a turn of the outer loop takes, and queries of a step."""


@cache
def compile_backward(chip: str, schedule: str) -> Compiled:
    """dk and dv of one head at a time: workgroups take every `workers`-th block of keys.

    Keys and values of the block go through LDS into registers before the loop, and leave their bytes to the queries.
    """
    scores, sums = instructions(chip, STEP)
    names = {name: ptr("f16") for name in ("q", "k", "v", "do", "dk", "dv")} | {"lse": ptr("f32"), "delta": ptr("f32")}
    sizes = dict.fromkeys(("sq", "sk", "blocks", "workers"), i32)

    @kernel("backward", target=get_target(chip), waves=4, arguments={**names, **sizes, "scale": f32})
    def backward(given: Any) -> None:
        sq, sk = given.sq, given.sk
        across = (sk + (BLOCK - 1)) // BLOCK
        shape = scores.c_over(WAVES, BLOCK, STEP)
        by_query = shape.reduce(0)
        nothing = zeros((BLOCK, STEP), "f32", shape)

        def rows_of(pointer: Pointer, head: Scalar, count: Scalar, pad: int) -> View:
            there = pointer.offset((head.to("i64") * count.to("i64") * D).multiple_of(8))
            return view(there, (count, D), (D, 1)).pad(pad, D)

        def columns_of(pointer: Pointer, head: Scalar, count: Scalar) -> View:
            there = pointer.offset((head.to("i64") * count.to("i64") * D).multiple_of(8))
            return view(there, (D, count), (1, D)).pad(D, STEP)

        def numbers_of(pointer: Pointer, head: Scalar) -> View:
            return view(pointer.offset(head.to("i64") * sq.to("i64")), (sq,), (1,)).pad(STEP)

        with loop(workgroup_id(0), given.blocks, given.workers) as turn:
            head, first = turn.index // across, turn.index % across * BLOCK
            windows = (rows_of(one, head, sk, BLOCK).window((BLOCK, D), (first, 0)) for one in (given.k, given.v))
            k, v = (to_lds(load(one)).read(scores.a_over(WAVES, BLOCK, D)) for one in windows)
            q_rows, do_rows = rows_of(given.q, head, sq, STEP), rows_of(given.do, head, sq, STEP)
            q_columns, do_columns = columns_of(given.q, head, sq), columns_of(given.do, head, sq)
            lse, delta = numbers_of(given.lse, head), numbers_of(given.delta, head)
            start = [zeros((BLOCK, D), "f32", sums.c_over(WAVES, BLOCK, D)) for _ in range(2)]
            with loop(0, sq, STEP, carry=start, schedule=Schedule.parse(schedule)) as step:
                dk, dv = step.carried
                at = step.index
                with stage("load"):
                    by_rows = [load(one.window((STEP, D), (at, 0))) for one in (q_rows, do_rows)]
                    by_columns = [load(one.window((D, STEP), (0, at))) for one in (q_columns, do_columns)]
                    numbers = [load(one.window((STEP,), (at,))) for one in (lse, delta)]
                with stage("to_lds"):
                    by_rows = [to_lds(one) for one in by_rows]
                    by_columns = [to_lds(one) for one in by_columns]
                    numbers = [to_lds(one) for one in numbers]
                with stage("read"):
                    q, do = (one.read(scores.b_over(WAVES, STEP, D)) for one in by_rows)
                    qt, dot = (one.read(sums.b_over(WAVES, D, STEP)) for one in by_columns)
                    shift, less = (one.read(by_query) for one in numbers)
                with stage("p"):
                    p = exp2(mma(scores, k, q, nothing) * (given.scale * LOG2_E) - (shift * LOG2_E)[None, :])
                with stage("dv"):
                    dv = mma(sums, redistribute(cast(p, "f16"), sums.a_over(WAVES, BLOCK, STEP)), dot, dv)
                with stage("ds"):
                    ds = cast(p * (mma(scores, v, do, nothing) - less[None, :]), "f16")
                with stage("dk"):
                    dk = mma(sums, redistribute(ds, sums.a_over(WAVES, BLOCK, STEP)), qt, dk)
                step.carry(dk, dv)
            dk, dv = step.results
            for result, pointer in ((dk * given.scale, given.dk), (dv, given.dv)):
                store(cast(result, "f16"), rows_of(pointer, head, sk, BLOCK).window((BLOCK, D), (first, 0)))

    return compile_traced(backward)


ONE_AHEAD = "schedule backward 1; ahead load 1"
TWO_AHEAD = "schedule backward 1; ahead load 2, to_lds 1; buffers 2"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "schedule"), [*((chip, ONE_AHEAD) for chip in CHIPS), ("gfx942", TWO_AHEAD)])
def test_gradients_of_keys_and_values(chip: str, schedule: str) -> None:
    """Two heads, ragged blocks of keys, and queries that fill no whole step."""
    heads, sq, sk = 2, 72, 200
    random = np.random.default_rng(3)
    q, do = (random.standard_normal((heads, sq, D)).astype(np.float16) for _ in range(2))
    k, v = (random.standard_normal((heads, sk, D)).astype(np.float16) for _ in range(2))
    wide_q, wide_do, wide_k, wide_v = (one.astype(np.float64) for one in (q, do, k, v))
    scale = 1 / math.sqrt(D)
    s = scale * wide_q @ wide_k.swapaxes(1, 2)
    lse = np.log(np.exp(s - s.max(axis=2, keepdims=True)).sum(axis=2)) + s.max(axis=2)
    p = np.exp(s - lse[..., None])
    delta = (wide_do * (p @ wide_v)).sum(axis=2)
    ds = p * (wide_do @ wide_v.swapaxes(1, 2) - delta[..., None])
    dk, dv = scale * ds.swapaxes(1, 2) @ wide_q, p.swapaxes(1, 2) @ wide_do
    dk_size = scale * np.abs(ds).swapaxes(1, 2) @ np.abs(wide_q)
    dv_size = p.swapaxes(1, 2) @ np.abs(wide_do)
    compiled = compile_backward(chip, schedule)
    metadata = CodeObject.parse(compiled.hsaco).kernels["backward"].metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    arrays = q, k, v, do, *(np.full_like(k, np.nan) for _ in range(2)), lse.astype(np.float32), delta.astype(np.float32)
    found = compiled.run(*arrays, sq, sk, heads * -(-sk // BLOCK), 3, scale, grid=(3, 1, 1), checks="all")[4:6]
    for result, expected, size in zip(found, (dk, dv), (dk_size, dv_size), strict=True):
        assert (np.abs(result.astype(np.float64) - expected) <= HALF * (2 * size + np.abs(expected))).all()
