"""Attention forward in Triton under the model of time, beside ours in timing.py. Needs the package `triton`; nothing
runs on a GPU.

The algorithm is that of Triton's tutorial on fused attention: a program keeps a block of queries and walks over keys,
first over blocks that every query attends to, then over those that the causal mask cuts. Several blocks, numbers of
waves and of stages are tried; the fastest counts.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton_fastest import Found, fastest_of
from triton_in_time import TYPES, Launch, compiled_for, modelled

from ckmlir.sim.timing.parameters import Parameters

QUERIES = (128, 256)
"""Rows that a program keeps."""
KEYS = (32, 64)
"""Of a step."""


@triton.jit
def _over_keys(o, total, largest, queries, k, v, row, kept, low, high, scale,
               KEYS: tl.constexpr, D: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    channels = tl.arange(0, D)
    for start in range(low, high, KEYS):
        keys = start + tl.arange(0, KEYS)
        scores = tl.dot(queries, tl.load(k + keys[None, :] * row + channels[:, None])) * scale
        if MASKED:
            scores = tl.where(kept[:, None] >= keys[None, :], scores, -1.0e6)
        above = tl.maximum(largest, tl.max(scores, 1))
        weights, shrunk = tl.exp2(scores - above[:, None]), tl.exp2(largest - above)
        values = tl.load(v + keys[:, None] * row + channels[None, :])
        o = tl.dot(weights.to(values.dtype), values, o * shrunk[:, None])
        total, largest = total * shrunk + tl.sum(weights, 1), above
    return o, total, largest


@triton.jit
def attention(
    q, k, v, o, scale, row, head, length,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The scale is to the base 2; rows are whole blocks."""
    begin = tl.program_id(1).to(tl.int64) * head
    q += begin
    k += begin
    v += begin
    start = tl.program_id(0) * QUERIES
    kept = start + tl.arange(0, QUERIES)
    places = kept[:, None] * row + tl.arange(0, D)[None, :]
    queries = tl.load(q + places)
    sums, total = tl.zeros([QUERIES, D], tl.float32), tl.zeros([QUERIES], tl.float32)
    largest = tl.zeros([QUERIES], tl.float32) - float("inf")
    high = start if CAUSAL else length
    sums, total, largest = _over_keys(sums, total, largest, queries, k, v, row, kept, 0, high, scale,
                                      KEYS, D, False)  # fmt: skip
    if CAUSAL:
        sums, total, largest = _over_keys(sums, total, largest, queries, k, v, row, kept, start, start + QUERIES,
                                          scale, KEYS, D, True)  # fmt: skip
    tl.store(o + begin + places, (sums / total[:, None]).to(o.dtype.element_ty))


def fastest(keys: dict[str, Any], chip: str, parameters: Parameters) -> Found:
    """Of as many queries as keys, whole blocks."""
    return fastest_of(partial(cycles_of, keys, chip, parameters), itertools.product(QUERIES, KEYS))


def cycles_of(
    keys: dict[str, Any], chip: str, parameters: Parameters, tile: tuple[int, int], waves: int, stages: int
) -> float | None:
    """Of one kernel; None where its tiles do not fit LDS."""
    return modelled(launch_of(keys, chip, tile, waves, stages), parameters)


def launch_of(keys: dict[str, Any], chip: str, tile: tuple[int, int], waves: int, stages: int) -> Launch:
    """One kernel."""
    heads, length, channels = keys["b"] * keys["h"], keys["sq"], keys["d"]
    element, _ = TYPES[keys["dtype"]]
    constants = {"QUERIES": tile[0], "KEYS": tile[1], "D": channels, "CAUSAL": int("mask" in keys)}
    types = (*[f"*{element}"] * 4, "fp32", "i32", "i32", "i32")
    compiled = compiled_for(attention, types, constants, chip, num_warps=waves, num_stages=stages)
    tensor_bytes = 2 * heads * length * channels
    numbers = (np.float32(math.log2(math.e) * channels**-0.5), channels, length * channels, length)
    order = (length // tile[0], heads)
    return Launch(compiled, chip, [tensor_bytes] * 3, [tensor_bytes], numbers, waves, (*order, 1), order)
