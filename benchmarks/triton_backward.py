"""Attention backward in Triton under the model of time, beside ours in timing.py. Needs the package `triton`; nothing
runs on a GPU.

The algorithm is that of Triton's tutorial on fused attention: a program makes dK and dV of a block of keys, going over
queries, and then dQ of a block of queries, going over keys, so that nothing is added in memory and two of five products
are made twice. What precedes it, rowsum(dO O), both have and is counted for neither; ours is counted with the kernel
that rounds dQ. Several blocks, numbers of waves and of stages are tried; the fastest counts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton_fastest import Found, fastest_of
from triton_in_time import TYPES, Launch, compiled_for, modelled

from ckmlir.sim.timing.parameters import Parameters

WALKED = (32, 64)
"""Rows of a step, of either loop."""
KEPT = 128
"""Rows that a program keeps, in either loop. With 64 the fastest takes 1.66 times as long on gfx942, 1.97 on gfx950."""
CUT = 2
"""Parts of a step where the causal mask cuts blocks, as in the tutorial."""


@triton.jit
def _of_keys(dk, dv, keys, values, q, do, lse, delta, row, at, low, steps,
             QUERIES: tl.constexpr, D: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    channels = tl.arange(0, D)
    for step in range(steps):
        queries = low + step * QUERIES + tl.arange(0, QUERIES)
        across = tl.load(q + queries[None, :] * row + channels[:, None])
        weights = tl.exp2(tl.dot(keys, across) - tl.load(lse + queries)[None, :])
        if MASKED:
            weights = tl.where(queries[None, :] >= at[:, None], weights, 0.0)
        slopes = tl.load(do + queries[:, None] * row + channels[None, :])
        dv += tl.dot(weights.to(slopes.dtype), slopes)
        changes = weights * (tl.dot(values, tl.trans(slopes)) - tl.load(delta + queries)[None, :])
        dk += tl.dot(changes.to(across.dtype), tl.trans(across))
    return dk, dv


@triton.jit
def _of_queries(dq, queries, slopes, exponents, deltas, k, v, row, at, low, steps,
                KEYS: tl.constexpr, D: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    channels = tl.arange(0, D)
    for step in range(steps):
        keys = low + step * KEYS + tl.arange(0, KEYS)
        across = tl.load(k + keys[None, :] * row + channels[:, None])
        values = tl.load(v + keys[None, :] * row + channels[:, None])
        weights = tl.exp2(tl.dot(queries, across) - exponents)
        if MASKED:
            weights = tl.where(at[:, None] >= keys[None, :], weights, 0.0)
        changes = weights * (tl.dot(slopes, values).to(tl.float32) - deltas)
        dq += tl.dot(changes.to(across.dtype), tl.trans(across))
    return dq


@triton.jit
def attention_backward(
    q, k, v, do, lse, delta, dq, dk, dv, scale, row, head, length,
    KEPT: tl.constexpr, WALKED: tl.constexpr, CUT: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """K comes multiplied by the scale to the base 2; rows are whole blocks."""
    begin = tl.program_id(1).to(tl.int64) * head
    lse += tl.program_id(1).to(tl.int64) * length
    delta += tl.program_id(1).to(tl.int64) * length
    q += begin
    k += begin
    v += begin
    do += begin
    start = tl.program_id(0) * KEPT
    kept = start + tl.arange(0, KEPT)
    places = kept[:, None] * row + tl.arange(0, D)[None, :]
    keys, values = tl.load(k + places), tl.load(v + places)
    key_sums, value_sums = tl.zeros([KEPT, D], tl.float32), tl.zeros([KEPT, D], tl.float32)
    low = 0
    if CAUSAL:
        key_sums, value_sums = _of_keys(key_sums, value_sums, keys, values, q, do, lse, delta, row, kept, start,
                                        KEPT // (WALKED // CUT), WALKED // CUT, D, True)  # fmt: skip
        low = start + KEPT
    key_sums, value_sums = _of_keys(key_sums, value_sums, keys, values, q, do, lse, delta, row, kept, low,
                                    (length - low) // WALKED, WALKED, D, False)  # fmt: skip
    tl.store(dv + begin + places, value_sums.to(dv.dtype.element_ty))
    tl.store(dk + begin + places, (key_sums * scale).to(dk.dtype.element_ty))
    queries, slopes = tl.load(q + places), tl.load(do + places)
    exponents, deltas = tl.load(lse + kept)[:, None], tl.load(delta + kept)[:, None]
    sums = tl.zeros([KEPT, D], tl.float32)
    high = length
    if CAUSAL:
        sums = _of_queries(sums, queries, slopes, exponents, deltas, k, v, row, kept, start,
                           KEPT // (WALKED // CUT), WALKED // CUT, D, True)  # fmt: skip
        high = start
    sums = _of_queries(sums, queries, slopes, exponents, deltas, k, v, row, kept, 0, high // WALKED, WALKED, D,
                       False)  # fmt: skip
    tl.store(dq + begin + places, (sums * 0.6931471805599453).to(dq.dtype.element_ty))


def fastest(keys: dict[str, Any], chip: str, parameters: Parameters) -> Found:
    """Of as many queries as keys, whole blocks."""
    return fastest_of(partial(cycles_of, keys, chip, parameters), [(KEPT, walked) for walked in WALKED])


def cycles_of(
    keys: dict[str, Any], chip: str, parameters: Parameters, tile: tuple[int, int], waves: int, stages: int
) -> float | None:
    """Of one kernel; None where its tiles do not fit LDS."""
    heads, length, channels = keys["b"] * keys["h"], keys["sq"], keys["d"]
    element, _ = TYPES[keys["dtype"]]
    constants = {"KEPT": tile[0], "WALKED": tile[1], "CUT": CUT, "D": channels, "CAUSAL": int("mask" in keys)}
    tensor, rows = f"*{element}", "*fp32"
    types = (*[tensor] * 4, rows, rows, *[tensor] * 3, "fp32", "i32", "i32", "i32")
    compiled = compiled_for(attention_backward, types, constants, chip, num_warps=waves, num_stages=stages)
    tensor_bytes, row_bytes = 2 * heads * length * channels, 4 * heads * length
    numbers = (np.float32(channels**-0.5), channels, length * channels, length)
    order = (length // tile[0], heads)
    inputs = [*[tensor_bytes] * 4, row_bytes, row_bytes]
    launch = Launch(compiled, chip, inputs, [tensor_bytes] * 3, numbers, waves, (*order, 1), order)
    return modelled(launch, parameters)
