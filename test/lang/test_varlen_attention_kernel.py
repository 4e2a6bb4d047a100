"""Attention over sequences of different lengths, packed one behind the other: workgroups beyond a sequence's queries
end at once, and scores are masked only where the mask's edge lies, by a branch in the softmax's stage.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    cast,
    coordinates,
    exit_unless,
    exp2,
    f32,
    full,
    kernel,
    load,
    loop,
    maximum,
    mma,
    ptr,
    redistribute,
    reduce_max,
    reduce_sum,
    stage,
    store,
    to_lds,
    view,
    when,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.schedules import ATTENTION
from ckmlir.targets import get_target

QUERIES, KEYS, D, WAVES = 64, 32, 64, (2, 1)
INFINITY = float("inf")


def varlen(chip: str, schedule: str) -> Kernel:
    """Causal attention of one head: query i of a sequence attends to keys up to i."""
    target = get_target(chip)
    scores = Mma.select(target, "32x32x8", "f16", block_k=D, transposed=True)
    values = Mma.select(target, "32x32x8", "f16", block_k=KEYS, transposed=True).with_k_chunk(4)
    pointers = {**{name: ptr("f16") for name in "qkvo"}, "begins": ptr("i32", 4), "lengths": ptr("i32", 4)}

    @kernel("varlen", target=target, waves=2, arguments={**pointers, "scale": f32})
    def attend(given: Any) -> None:
        first, batch = workgroup_id(0) * QUERIES, workgroup_id(1)
        begin, length = given.begins.scalar(batch), given.lengths.scalar(batch)
        exit_unless(first < length)
        q, k, v, o = (getattr(given, name).offset((begin * D).multiple_of(D)) for name in "qkvo")
        Q, K, output = (
            view(one, (length, D), (D, 1)).pad(rows, D) for one, rows in ((q, QUERIES), (k, KEYS), (o, QUERIES))
        )
        V = view(v, (D, length), (1, D)).pad(D, KEYS)
        query = load(Q.window((QUERIES, D), (first, 0)), scores.a_over(WAVES, QUERIES, D))
        nothing = zeros((QUERIES, KEYS), "f32", scores.c_over(WAVES, QUERIES, KEYS))
        rows = scores.c_over(WAVES, QUERIES, KEYS).reduce(1)
        start = [
            zeros((QUERIES, D), "f32", values.c_over(WAVES, QUERIES, D)),
            full((QUERIES,), -INFINITY, "f32", rows),
            zeros((QUERIES,), "f32", rows),
        ]
        high = length.minimum(first + QUERIES)
        with loop(0, high, KEYS, carry=start, schedule=Schedule.parse(ATTENTION[schedule])) as step:
            out, m0, l0 = step.carried
            with stage("load_k"):
                gk = load(K.window((KEYS, D), (step.index, 0)))
            with stage("k_lds"):
                lk = to_lds(gk, "k")
            with stage("load_v"):
                gv = load(V.window((D, KEYS), (0, step.index)))
            with stage("v_lds"):
                lv = to_lds(gv, "v")
            with stage("k_read"):
                rk = lk.read(scores.b_over(WAVES, KEYS, D))
            with stage("qk"):
                s = mma(scores, query, rk, nothing)
            with stage("load_s"):
                pass  # nothing that scores need
            with stage("top"):
                with when(
                    step.index + KEYS > first + 1, otherwise=[s]
                ) as edge:  # some query before the last of the keys
                    row, column = coordinates(m0, 0) + (first - step.index), coordinates(s, 1)
                    edge.give(where(column <= row[:, None], s, -INFINITY))
                (s,) = edge.results
                m1 = maximum(m0, reduce_max(s, 1))
                shift = m1 * given.scale
                decay = exp2(m0 * given.scale - shift)
            with stage("exp"):
                p = exp2(s * given.scale - shift[:, None])
                l1 = l0 * decay + reduce_sum(p, 1)
                p = redistribute(cast(p, "f16"), values.a_over(WAVES, QUERIES, KEYS))
            with stage("v_read"):
                rv = lv.read(values.b_over(WAVES, D, KEYS))
            with stage("rescale"):
                rescaled = out * decay[:, None]
            with stage("pv"):
                step.carry(mma(values, p, rv, rescaled), m1, l1)
        out, _, total = step.results
        store(cast(out * (1.0 / total)[:, None], "f16"), output.window((QUERIES, D), (first, 0)))

    return attend


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One sequence in double precision."""
    s = q.astype(np.float64) @ k.astype(np.float64).T / math.sqrt(D)
    s[np.triu_indices(len(q), 1)] = -INFINITY
    weights = np.exp(s - s.max(1, keepdims=True))
    return weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("schedule", ["qr", "qr_async"])
def test_sequences_of_any_lengths(chip: str, schedule: str) -> None:
    """Empty sequences, single queries, whole blocks and parts of them.

    Weights are rounded to f16 (2^-11 each, of a mean weighted by them) and so is the output; the rest is f32. Values
    are at most 4.2, so 3 * 2^-11 * 4.2 bounds the error.
    """
    compiled = compile_traced(varlen(chip, schedule))
    assert compiled.spills == 0
    lengths = np.array([70, 0, 64, 1, 130] if schedule == "qr" else [100, 0], np.int32)
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal((begins[-1], D)).astype(np.float16) for _ in range(3))
    scale = math.log2(math.e) / math.sqrt(D)
    grid = (-(-int(lengths.max()) // QUERIES), len(lengths), 1)
    *_, o, _, _ = compiled.run(q, k, v, np.full_like(q, 9), begins, lengths, scale, grid=grid, checks="all")
    for begin, length in zip(begins, lengths):
        if length:
            own = slice(begin, begin + length)
            np.testing.assert_allclose(o[own], reference(q[own], k[own], v[own]), rtol=0, atol=3 * 2**-11 * 4.2)
