"""The loop of attention forward that traced test kernels share: over keys, with the stages of attention's schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Scalar,
    Tile,
    View,
    cast,
    exp2,
    full,
    load,
    loop,
    maximum,
    mma,
    redistribute,
    reduce_max,
    reduce_sum,
    stage,
    to_lds,
    zeros,
)  # fmt: skip
from ckmlir.ops.schedules import ATTENTION
from ckmlir.targets import get_target

LOWEST = -1e30
"""Below every score; finite, so that what sees no key at all stays a number."""


@dataclass(frozen=True)
class Products:
    """The matrix instructions of scores and of their product with V, over blocks of queries and keys by some waves."""

    scores: Mma
    values: Mma
    waves: tuple[int, int]
    queries: int
    keys: int
    channels: int


def products(
    chip: str, waves: tuple[int, int], queries: int, keys: int, channels: int, shape: str | None = None
) -> Products:
    """Those of f16; `shape` is by default the chip's own."""
    target, shape = get_target(chip), shape or ("32x32x16" if chip == "gfx950" else "32x32x8")
    scores = Mma.select(target, shape, "f16", block_k=channels, transposed=True)
    values = Mma.select(target, shape, "f16", block_k=keys, transposed=True).with_k_chunk(4)
    return Products(scores, values, waves, queries, keys, channels)


def attend(
    of: Products,
    q: Tile,
    k: View,
    v: View,
    span: tuple[Scalar | int, Scalar],
    scale: Scalar,
    schedule: str,
    masked: Callable[[Tile, Tile, Any], Tile] = lambda scores, _, index: scores,
) -> Tile:
    """softmax2(scale * q · kᵀ) · v over the keys of a span, in f32; weights are powers of two.

    Args:
        k, v: keys as rows, and as columns.
        masked: the scores that count, from scores, the largest ones before (one a query) and the first key.
    """
    queries, keys, channels, waves = of.queries, of.keys, of.channels, of.waves
    shape = of.scores.c_over(waves, queries, keys)
    row = shape.reduce(1)
    start = [
        zeros((queries, channels), "f32", of.values.c_over(waves, queries, channels)),
        full((queries,), LOWEST, "f32", row),
        zeros((queries,), "f32", row),
    ]
    none = zeros((queries, keys), "f32", shape)
    with loop(*span, keys, carry=start, schedule=Schedule.parse(ATTENTION[schedule])) as step:
        o, before, total = step.carried
        with stage("prepare"):
            pass  # nothing that keys need
        with stage("load_k"):
            from_k = load(k.window((keys, channels), (step.index, 0)))
        with stage("k_lds"):
            in_k = to_lds(from_k, "k")
        with stage("load_v"):
            from_v = load(v.window((channels, keys), (0, step.index)))
        with stage("v_lds"):
            in_v = to_lds(from_v, "v")
        with stage("k_read"):
            from_lds = in_k.read(of.scores.b_over(waves, keys, channels))
        with stage("qk"):
            scores = mma(of.scores, q, from_lds, none)
        with stage("load_s"):
            pass  # nothing that scores need
        with stage("top"):
            scores = masked(scores, before, step.index)
            largest = maximum(before, reduce_max(scores, 1) * scale)
            decay = exp2(before - largest)
        with stage("exp"):
            weights = exp2(scores * scale - largest[:, None])
            total = total * decay + reduce_sum(weights, 1)
            p = redistribute(cast(weights, "f16"), of.values.a_over(waves, queries, keys))
        with stage("v_read"):
            in_registers = in_v.read(of.values.b_over(waves, channels, keys))
        with stage("rescale"):
            o = o * decay[:, None]
        with stage("pv"):
            o = mma(of.values, p, in_registers, o)
        step.carry(o, largest, total)
    o, _, total = step.results
    return o * (1.0 / total)[:, None]
