"""Attention over sequences of different lengths, packed one behind the other: workgroups beyond a sequence's queries
end at once, and scores are masked only where the mask's edge lies, by a branch in the softmax's stage.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced
from traced_attention import LOWEST, attend, products

from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    cast,
    coordinates,
    exit_unless,
    f32,
    kernel,
    load,
    ptr,
    store,
    view,
    when,
    where,
    workgroup_id,
)
from ckmlir.targets import get_target

QUERIES, KEYS, D, WAVES = 64, 32, 64, (2, 1)
INFINITY = float("inf")


def varlen(chip: str, schedule: str) -> Kernel:
    """Causal attention of one head: query i of a sequence attends to keys up to i."""
    of = products(chip, WAVES, QUERIES, KEYS, D, "32x32x8")
    pointers = {**{name: ptr("f16") for name in "qkvo"}, "begins": ptr("i32", 4), "lengths": ptr("i32", 4)}

    @kernel("varlen", target=get_target(chip), waves=2, arguments={**pointers, "scale": f32})
    def attention(given: Any) -> None:
        first, batch = workgroup_id(0) * QUERIES, workgroup_id(1)
        begin, length = given.begins.scalar(batch), given.lengths.scalar(batch)
        exit_unless(first < length)
        q, k, v, o = (getattr(given, name).offset((begin * D).multiple_of(D)) for name in "qkvo")
        Q, K, output = (
            view(one, (length, D), (D, 1)).pad(rows, D) for one, rows in ((q, QUERIES), (k, KEYS), (o, QUERIES))
        )
        V = view(v, (D, length), (1, D)).pad(D, KEYS)
        query = load(Q.window((QUERIES, D), (first, 0)), of.scores.a_over(WAVES, QUERIES, D))

        def causal(scores: Tile, before: Tile, key: Scalar) -> Tile:
            with when(key + KEYS > first + 1, otherwise=[scores]) as edge:  # some query before the last of the keys
                row, column = coordinates(before, 0) + (first - key), coordinates(scores, 1)
                edge.give(where(column <= row[:, None], scores, LOWEST))
            return edge.results[0]

        high = length.minimum(first + QUERIES)
        out = attend(of, query, K, V, (0, high), given.scale, schedule, causal)
        store(cast(out, "f16"), output.window((QUERIES, D), (first, 0)))

    return attention


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One sequence in double precision."""
    s = q.astype(np.float64) @ k.astype(np.float64).T / math.sqrt(D)
    s[np.triu_indices(len(q), 1)] = -INFINITY
    weights = np.exp(s - s.max(1, keepdims=True))
    return weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)


@pytest.mark.one_in(4)
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
