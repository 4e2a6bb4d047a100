"""Attention with SiLU weights in NumPy and float64, and how far a kernel's may be from it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ckmlir.ops.attention.part import score_parts, weight_parts
from ckmlir.ops.attention.parts.silu import Silu
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import scored
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import LOG2_E, OVERFLOW, UNIT, products_lost
from ckmlir.targets import Target

LARGEST = {"f16": 65504.0, "bf16": OVERFLOW, "f32": OVERFLOW}
"""By dtype: weights in kernels, which are those here divided by ln 2, are below this."""
STEEPEST = 1.1
"""The derivative of x / (1 + exp(-x)) is at most 1.0999."""


def silu(scores: Array) -> Array:
    """x / (1 + exp(-x)), 0 for minus infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = np.where(scores == -np.inf, 0.0, scores / (1 + np.exp(-scores)))
    return found


def silu_attention(problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """O."""
    o = np.zeros(problem.shape("o"))
    outputs, scale = problem.by_head(o), scale_of(problem)
    for one in scored(problem, arrays):
        place, weights = one.place, silu(one.scores)
        with np.errstate(invalid="ignore"):
            for part in weight_parts(problem):
                weights = weights * part.factors(problem, place, arrays)
            outputs[place.batch, place.head, place.memory_rows] = scale * (weights @ one.values)
    found = {"o": o}
    for part in weight_parts(problem):
        found |= part.outputs(problem, arrays)
    return found


def silu_tolerances(problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Tolerance]:
    """Tolerances of o, and of what parts write; u is f32's unit roundoff, every sum is over f32 products.

    A score s = scale·q·k has error E = (d + 8) u scale |q| |k| + 2 u |s|, by Euclidean lengths, with the rounding of
    the exponent, and f32's underflow of d products and of the exponent; parts add theirs, and so does what is lost
    where denormals count as zero (`products_lost`). So its weight w has the error 1.1 E (the steepest slope), to which
    exponential, sum, reciprocal and products add 6 u |w| and one underflow more. P is rounded to the dtype, towards
    zero at worst: 2 unit roundoffs, and the error of underflow, which is the smallest normal number where matrix
    instructions take denormals for zero; those of V lose |w v| then. A sum over n keys adds r = 2 (n / 32 + 8) u. With
    c the scale of weights, and sums over the keys that are attended to:

        c (sum (|w| (2 u_dtype + r + 6 u) + 1.1 E + underflow) |v| + |w v|, of denormal v) + u_out |o|

    Nothing is promised of queries with scores or weights that the dtypes do not hold, or with scores that are not
    numbers, or where V is not finite, and of rows behind a sequence's length.
    """
    dtype, out, single = find_dtype(problem.dtype), find_dtype(problem.out), find_dtype("f32")
    scale = abs(scale_of(problem))
    flushes = not target.has("mfma_denormals")
    smallest = dtype.least_normal if flushes else dtype.underflow
    size = problem.d * max(1.0, problem.score_scale * LOG2_E)
    atol, free = np.zeros(problem.shape("o")), np.ones(problem.shape("o"), np.bool_)
    bounds, frees = problem.by_head(atol), problem.by_head(free)
    for one in scored(problem, arrays):
        place = one.place
        query, key = (np.nan_to_num(rows, posinf=0, neginf=0) for rows in (
            problem.queries_of(place, arrays), problem.keys_of(place, arrays)[0]))  # fmt: skip
        lengths = np.linalg.norm(query, axis=1)[:, None] * np.linalg.norm(key, axis=1)[None, :]
        kept = one.scores > -np.inf
        scores = np.where(kept, np.abs(one.scores), 0.0)
        error = (problem.d + 8) * UNIT * problem.score_scale * lengths + 2 * UNIT * scores
        error = error + (problem.d * problem.score_scale + 1) * single.underflow
        if flushes:
            error = error + problem.score_scale * products_lost(query, key, dtype.least_normal)
        for changed in score_parts(problem):
            error = error + changed.error(problem, place, arrays)
        weights, sums = np.abs(silu(one.scores)), 2 * (place.keys / 32 + 8) * UNIT
        for kind in weight_parts(problem):
            sizes = np.abs(kind.factors(problem, place, arrays))
            weights, error = weights * sizes, error * sizes
        wrong = weights * (2 * dtype.unit_roundoff + sums + 6 * UNIT) + STEEPEST * error + smallest
        wrong = wrong + single.underflow
        values = np.abs(np.nan_to_num(one.values, posinf=0, neginf=0))
        at = place.batch, place.head, place.memory_rows
        with np.errstate(invalid="ignore"):
            lacking = np.where(values < dtype.least_normal * flushes, values, 0.0)
            bounds[at] = scale * (np.where(kept, np.nan_to_num(wrong, posinf=0), 0.0) @ values + weights @ lacking)
            fits = (1.5 * weights < LARGEST[dtype.name]) & np.isfinite(error) & (lengths * size < OVERFLOW / 4)
            unbounded = (1.5 * (weights @ values) >= OVERFLOW).any(axis=1)
        lost = np.isnan(one.scores) | (kept & ~fits)
        frees[at] = (lost.any(axis=1) | unbounded | ~np.isfinite(one.values).all())[:, None]
    reason = f"P rounded to {problem.dtype} and O to {problem.out}, scores and sums in f32 over {problem.d} channels"
    found = {"o": Tolerance(out.unit_roundoff, atol + out.underflow, reason, free)}
    for part in weight_parts(problem):
        for name, written in part.written(problem, arrays).items():
            found[name] = Tolerance(0.0, 0.0, "integers are exact", ~written)
    return found


def scale_of(problem: Problem) -> float:
    """Of SiLU weights, as f32 holds it."""
    (found,) = (part.scale for part in problem.parts if isinstance(part, Silu))
    return float(np.float32(found))
