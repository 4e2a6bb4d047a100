"""How far attention forward may be from the exact one: first-order bounds of f32's errors, query by query."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from ckmlir.ops.attention.fmha_fwd_spec import WEIGHT_EXPONENT
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import OVERFLOW
from ckmlir.targets import Target

FIRST_ORDER = 0.25
"""Error of an exponent up to which the exponential's is proportional."""


def fmha_tolerances(problem: Problem, arrays: Mapping[str, Array], magnitude: Array, target: Target) -> dict[str,
Tolerance]:
    """Tolerances of o and lse; u is f32's unit roundoff, every sum is over f32 products.

    A score s = scale·q·k has error E = (d + 8) u scale |q| |k|, by Euclidean lengths: d products, the scaling and
    the exponent's argument. The exponential, the running maximum's rescaling of every block of 32 keys and the row
    sum add r = 2 (sk / 32 + 8) u, relative; so a weight has the relative error 2 E + r, and P, rounded to the dtype
    towards zero at worst, up to 2 unit roundoffs more, and the absolute error of underflow, which dividing by the
    row sum does not enlarge since that is at least one; where matrix instructions take denormals for zero, that is
    the smallest normal number. With p the exact weights:

        O    (2 E + r + 2 u_dtype) sum p|v| + sk underflow max|v| + u_out |o|
        LSE  E + r + 4 u |lse|

    Where E is large O is some mean of V, wrong by 2 max|v|. In fp8 the weights are rounded to nearest, after
    multiplication by a power of two, which divides their underflow. The scales of Q, K and V count as part of what
    they scale.

    Args:
        magnitude: O of the magnitudes of V, in the layout of o.
    """
    u, dtype, out = find_dtype("f32").unit_roundoff, find_dtype(problem.dtype), find_dtype(problem.out)
    flushes = not target.has("mfma_denormals") and dtype.name != "fp8"
    score = np.zeros((problem.b, problem.h, problem.sq))
    free, free_o = np.zeros(score.shape, np.bool_), np.zeros(score.shape, np.bool_)
    for batch, head, query, key, value in _heads(problem, arrays):
        longest = _lengths(key).max(initial=0.0)
        score[batch, head] = (problem.d + 8) * u * problem.score_scale * _lengths(query) * longest
        free[batch, head] = _overflowing(problem, query, key)
        if flushes:
            free[batch, head] |= _infinite_times_denormal(query, key, dtype.least_normal)
        free_o[batch, head] = not np.isfinite(value).all()
    sums = 2 * (problem.sk / 32 + 8) * u
    largest = problem.v_scale * float(np.nan_to_num(np.abs(arrays["v"].astype(np.float64)), posinf=0).max(initial=0.0))
    smallest = dtype.least_normal if flushes else dtype.underflow
    if dtype.name == "fp8":  # its matrix instructions take denormals, and weights are multiplied before
        smallest = dtype.underflow / 2 ** WEIGHT_EXPONENT[str(target.fp8)]
    rounding = (1 if dtype.name == "fp8" else 2) * dtype.unit_roundoff
    rows = score[..., None]
    error = (2 * rows + sums + rounding) * np.nan_to_num(problem.by_head(magnitude))
    error = np.where(rows > FIRST_ORDER, np.maximum(error, 2 * largest), error)
    output = error + problem.sk * largest * smallest + out.underflow
    single = f"scores and sums in f32 over {problem.d} channels and {problem.sk} keys"
    rounded = f"P rounded to {problem.dtype} and O to {problem.out}, {single}"
    unspecified = np.broadcast_to((free | free_o)[..., None], output.shape)
    return {
        "o": Tolerance(out.unit_roundoff, problem.by_head(output), rounded, problem.by_head(unspecified)),
        "lse": Tolerance(4 * u, score + sums, single, free),
    }


def _heads(problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[int, int, Array, Array, Array]]:
    """Batch, head, and its queries, keys and values in float64."""
    if not problem.sq:
        return
    q, k, v = (problem.by_head(arrays[name]) for name in "qkv")
    for batch in range(problem.b):
        for head in range(problem.h):
            shared = head // (problem.h // problem.hk)
            query, key, value = q[batch, head], k[batch, shared], v[batch, shared]
            yield batch, head, query.astype(np.float64), key.astype(np.float64), value.astype(np.float64)


def _lengths(rows: Array) -> Array:
    """The Euclidean length of every row, what is no number left out."""
    found: Array = np.linalg.norm(np.nan_to_num(rows, posinf=0, neginf=0), axis=-1)
    return found


def _overflowing(problem: Problem, query: Array, key: Array) -> Array:
    """Queries with scores that f32 may not hold, whatever the order of their sums."""
    sizes = [np.nan_to_num(np.abs(rows), posinf=0) for rows in (query, key)]
    scale = max(1.0, problem.score_scale * math.log2(math.e))
    if problem.d * scale * sizes[0].max(initial=0.0) * sizes[1].max(initial=0.0) < OVERFLOW:
        return np.zeros(len(query), np.bool_)
    found: Array = ((sizes[0] @ sizes[1].T) * scale >= OVERFLOW).any(axis=1)
    return found


def _infinite_times_denormal(query: Array, key: Array, least: float) -> Array:
    """Queries that meet an infinity where the other factor may count as zero."""
    infinite = [np.isinf(rows).astype(np.float64) for rows in (query, key)]
    small = [((rows != 0) & (np.abs(rows) < least)).astype(np.float64) for rows in (query, key)]
    if not any(part.any() for part in infinite):
        return np.zeros(len(query), np.bool_)
    found: Array = ((infinite[0] @ small[1].T + small[0] @ infinite[1].T) > 0).any(axis=1)
    return found
