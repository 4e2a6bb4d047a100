"""How far attention forward may be from the exact one: first-order bounds of f32's errors, query by query."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.attention.fmha_fwd_spec import SCALED, WEIGHT_EXPONENT
from ckmlir.ops.attention.infinite_values import largest_sums, largest_values, unpromised
from ckmlir.ops.attention.level import is_level, lost_weight, sums_of_weights
from ckmlir.ops.attention.part import scale_parts, score_parts, weight_parts
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import REFERENCE_ROWS, lse_rows, lse_shape, scored
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype, numpy_dtype
from ckmlir.ops.precision import LOG2_E, OVERFLOW, products_lost, through_jumps
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.ops.tensors.rounding import saturated, underflow
from ckmlir.targets import Target

FIRST_ORDER = 0.25
"""Error of an exponent up to which the exponential's is proportional."""
SCALINGS = 4
"""Roundings of a score by scales in memory: of those of a query and a key, of their product, and with the score."""
MOST_ERROR = 60.0
"""Error of an exponent up to which the exponential of what should not be positive is a number."""
RELEVANT = 120.0
"""Weights below e to minus this power of the largest are zero in f32, which ends at e^-104."""


def fmha_tolerances(
    problem: Problem, arrays: Mapping[str, Array], magnitude: Array, target: Target
) -> dict[str, Tolerance]:
    """Tolerances of o and lse; u is f32's unit roundoff, every sum is over f32 products.

    A score s = scale·q·k has error E = (d + 8) u scale |q| |k|, by Euclidean lengths: d products, the scaling and the
    exponent's argument, and SCALINGS u more where scales in memory are a part; to which parts that change scores, or
    join the sum, add theirs, for keys whose weight is not below e^-RELEVANT of the largest; and so do the products that
    are lost where matrix instructions take denormals for zero (`products_lost`). The exponential, the
    running maximum's rescaling of every block of 32 keys and the row sum add r = 2 (sk / 32 + 8) u, relative; so a
    weight has the relative error 2 E + r, and P, rounded to the dtype towards zero at worst, up to 2 unit roundoffs
    more, and the absolute error of underflow, which dividing by the row sum does not enlarge since that is at least
    one; where matrix instructions take denormals for zero, that is the smallest normal number, and v below it is lost.
    Underflow is at least `lost_weight`: a weight below that may be zero before it is rounded. With p the exact
    weights, and lost the largest that v below may be, 0 elsewhere:

        O    (2 E + r + 2 u_dtype) sum p|v| + sk underflow max|v| + lost + u_out |o|
        LSE  E + r + 4 u |lse|

    Where E is large O is some mean of V, wrong by 2 max|v|; where it is so large that exponentials may overflow,
    nothing is promised. Of O where V is not finite, or its sums may be beyond f32, `unpromised` says what is.
    Where weights are taken from one exponent (`ops.attention.level`), their sum is not at least one, but W: products of
    weights and V below f32's least normal number u_0 may be lost, which adds sk u_0 / W to O, and sums of them, which
    come to W max|v|, may overflow.
    In fp8 the weights are rounded to nearest, after multiplication by a power of two, which divides their underflow.
    The scales of Q, K and V count as part of what they scale, and so does dropout's factor. Nothing is promised of rows
    behind a sequence's length. max|v| is that of an element's channel.

    Args:
        magnitude: O of the magnitudes of V, in the layout of o.
    """
    u, dtype, out = find_dtype("f32").unit_roundoff, find_dtype(problem.dtype_of("v")), find_dtype(problem.out)
    flushes = not target.has("mfma_denormals") and dtype.name != "fp8"
    small = target.has("mfma_denormals") or problem.dtype in SCALED
    least = 0.0 if small else find_dtype(problem.dtype).least_normal
    error, free = _score_errors(problem, arrays, least=least)
    sums = 2 * (problem.sk / 32 + 8) * u + sum(part.weight_error(problem) for part in scale_parts(problem))
    factors = math.prod(part.largest_factor for part in weight_parts(problem))
    largest, highest = (problem.v_scale * factors * found(problem, arrays) for found in (largest_values, largest_sums))
    lost = np.minimum(largest, dtype.least_normal * factors) if flushes else 0.0
    if is_level(problem):
        alone, total = (_by_batch(problem, sums)[..., None] for sums in sums_of_weights(problem, arrays))
        highest = 2 * largest * np.maximum(alone, 1.0)
        lost = lost + problem.v_scale * factors * (problem.sk + 1) * LEAST_NORMAL_F32 / total
    smallest = dtype.least_normal if flushes else dtype.underflow
    if dtype.name == "fp8":  # its matrix instructions take denormals, and weights are multiplied before
        smallest = underflow("fp8", target) / 2 ** WEIGHT_EXPONENT[str(target.fp8)]
    smallest = max(smallest, lost_weight(problem))
    rounding = (1 if dtype.name == "fp8" else 2) * dtype.unit_roundoff
    rows = _by_batch(problem, error)[..., None]
    output = (2 * rows + sums + rounding) * np.nan_to_num(problem.by_head(magnitude))
    output = np.where(rows > FIRST_ORDER, np.maximum(output, 2 * largest), output)
    output = output + problem.sk * largest * smallest + lost + (out.underflow if out.bytes > 1 else 0.0)
    single = f"scores and sums in f32 over {problem.d} channels and {problem.sk} keys"
    rounded = f"P rounded to {dtype.name} and O to {problem.out}, {single}"
    free |= error > MOST_ERROR
    unspecified = _by_batch(problem, free)[..., None] | unpromised(problem, arrays, highest, error)
    found = {
        "o": Tolerance(out.unit_roundoff, problem.by_head(output), rounded, problem.by_head(unspecified)),
        "lse": Tolerance(4 * u, error + sums, single, free),
    }
    for part in weight_parts(problem):
        for name, written in part.written(problem, arrays).items():
            found[name] = Tolerance(0.0, 0.0, "integers are exact", ~written)
    return found


def held(values: Array, out: str, target: Target) -> Array:
    """Numbers as O holds them, if it is of 8 bits: to nearest, too large ones the largest."""
    if find_dtype(out).bytes > 1:
        return values
    found: Array = saturated(values, out, target).astype(numpy_dtype(out, target)).astype(np.float64)
    return found


def stored(tolerance: Tolerance, out: str, exact: Array, target: Target) -> Tolerance:
    """The tolerance of O as it is stored: of 8 bits it may differ only where the error of what is rounded crosses a
    step of the rounding. `exact` is O before."""
    if find_dtype(out).bytes > 1:
        return tolerance
    steps = through_jumps(exact, np.asarray(tolerance.atol), lambda one: held(one, out, target))
    return replace(tolerance, rtol=0.0, atol=steps)


def _score_errors(problem: Problem, arrays: Mapping[str, Array], least: float) -> tuple[Array, Array]:
    """By query, in LSE's layout: the error of its scores, and whether nothing is promised of it.

    Args:
        least: numbers below this count as zero in matrix instructions.
    """
    u = find_dtype("f32").unit_roundoff
    roundings = problem.d + 8 + (SCALINGS if scale_parts(problem) else 0)
    error, free = (np.full(lse_shape(problem), start) for start in (0.0, True))
    heads: dict[tuple[int, int], tuple[Array, float]] = {}
    for place in problem.places(arrays, REFERENCE_ROWS):
        where = place.number, place.head
        if where not in heads:
            key, _ = problem.keys_of(place, arrays)
            heads.clear()
            heads[where] = key, float(_lengths(key).max(initial=0.0))
        key, longest = heads[where]
        query = problem.queries_of(place, arrays)
        own = roundings * u * _lengths(query) * longest
        found = _overflowing(problem, query, key)
        if least:
            own = own + products_lost(query, key, least).max(axis=1, initial=0.0)
            found |= _infinite_times_denormal(query, key, least)
        lse_rows(problem, error, place)[:] = problem.score_scale * own
        lse_rows(problem, free, place)[:] = found
    if problem.parts:
        _add_parts(problem, arrays, error, free)
    return np.where(np.isfinite(error), error, 0.0), free


def _add_parts(problem: Problem, arrays: Mapping[str, Array], error: Array, free: Array) -> None:
    """What parts add to the errors of scores that matter; infinite where nothing is promised."""
    for one in scored(problem, arrays):
        place = one.place
        logits = np.array([part.logit(problem, place, arrays) for part in weight_parts(problem)])
        largest = np.maximum(one.scores.max(axis=1, initial=-np.inf), logits.max(initial=-np.inf))
        with np.errstate(invalid="ignore"):
            matters = ~(one.scores < largest[:, None] - RELEVANT)
        more = np.zeros(len(largest))
        for part in score_parts(problem):
            added = np.broadcast_to(part.error(problem, place, arrays), matters.shape)
            more = more + np.where(matters, added, 0.0).max(axis=1, initial=0.0)
        for one_logit in weight_parts(problem):
            more = more + one_logit.logit_error(problem, place, arrays)
        lse_rows(problem, error, place)[:] += np.where(np.isfinite(more), more, 0.0)
        lse_rows(problem, free, place)[:] |= ~np.isfinite(more)


def _by_batch(problem: Problem, rows: Array) -> Array:
    """An array in LSE's layout with the axes (batch, head, row)."""
    return rows[None] if problem.grouped else rows


def _lengths(rows: Array) -> Array:
    """The Euclidean length of every row, what is not a number left out."""
    found: Array = np.linalg.norm(np.nan_to_num(rows, posinf=0, neginf=0), axis=-1)
    return found


def _overflowing(problem: Problem, query: Array, key: Array) -> Array:
    """Queries with scores that f32 may not hold, whatever the order of their sums."""
    sizes = [np.nan_to_num(np.abs(rows), posinf=0) for rows in (query, key)]
    scale = max(1.0, problem.score_scale * LOG2_E)
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
