"""How far gradients of attention may be from the exact ones: first-order bounds of f32's errors, pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ckmlir.ops.attention.backward.fmha_bwd_dot_do_o import ROW_STEPS, STEPS
from ckmlir.ops.attention.backward.fmha_bwd_dot_do_o import ROWS as QUERIES
from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.backward.reference import Pairs, SoftmaxPairs, bias_place, pairs
from ckmlir.ops.attention.backward.sink_gradient import sink_errors, sink_weights
from ckmlir.ops.attention.part import score_parts
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import LEAST_EXPONENTIAL, LOG2_E, OVERFLOW, UNIT, products_lost
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

BY_HEAD = ("dq", "dk", "dv")
"""Outputs that lie as Q, K and V do."""
GREATEST = {"f16": 65504.0, "f32": OVERFLOW, "bf16": (2 - 2.0**-7) * 2.0**127}
"""Finite numbers of a dtype go so far."""
SLOPES = {**GREATEST, "bf16": 2.0**100}
"""And what is promised of dS, which `cast(…, bounded=True)` rounds."""


class Bounds(NamedTuple):
    """What is promised of some queries.

    Attributes:
        unspecified: nothing is, nor of all that shares their head.
        outputs: by name: the error from these queries, and the sum of magnitudes that the output is made of.
    """

    pairs: Pairs
    unspecified: bool
    outputs: Mapping[str, tuple[Array, Array]]


def softmax_bounds(problem: BackwardProblem, arrays: Mapping[str, Array], target: Target) -> Iterator[Bounds]:
    """Bounds of all queries; u is f32's unit roundoff, t that of the dtype, every sum is over f32 products.

    With |q|, |k|, |do|, |v| and |o| Euclidean lengths of rows:

        exponent  E  = (d + 8) u scale |q| |k| + 8 u |lse|       d products, scaling, LSE to the base 2, the argument;
                                                                 and what the parts that change scores add
        weight    eP = min(P (exp(E) - 1 + 8 u) + min(P, s), 1)  weights are at most 1, and may be zero below s
                                                                 (LEAST_EXPONENTIAL)
        slope     eL = (dv + 18) u |do| (F |v| + |o|)            dP, and delta with which it begins
        dS        eS = eP |L| + (P + eP) eL
        rounded   rP = t P + smallest,  rS = t |dS| + smallest   where matrix instructions take denormals for zero,
                                                                 or multiply-adds round to bf16, the smallest is the
                                                                 dtype's smallest normal number
        dV  F (sum (eP + rP + n u P) |do| + smallest sum P)      n additions in any order, and denormals of dO
        dK  scale (sum (eS + rS + n u |dS|) |q| + smallest sum |dS|)
        dQ  the same with |k|
        dS  sum (eS + n u |dS|) + the smallest, over those that share a bias: its gradient
        all + t |output| + the underflow

    and the gradient of a sink logit is off by what `sink_errors` says of each query.

    Exponent and slope add what is lost where denormals count as zero (`products_lost`), and sums f n underflow, which
    are denormals themselves before they are multiplied with f.

    Where one instruction multiplies and rounds dS to f16 (`lowering/mixed_rounding.py`), it may do so at once: no
    further off than by two roundings, which is what the bound has.

    F is what dropout multiplies a weight with, 0 or f; dS is rounded before the multiplication with f, so that its
    smallest number counts f times.

    Nothing is promised of a head with inputs that are not numbers, or with scores, slopes or sums that f32 or the dtype
    may not hold, nor of those that share its keys or bias.
    """
    for one in pairs(problem, arrays, SoftmaxPairs):
        bounds = _bounds(problem, one, arrays, target)
        if problem.sink:
            bounds["dsink"] = _sink_bounds(problem, one, arrays)
        yield Bounds(one, _unspecified(problem, one), bounds)


def backward_tolerances(
    problem: BackwardProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], bounds: Iterable[Bounds]
) -> dict[str, Tolerance]:
    """Tolerances of all outputs, from bounds of all queries. Nothing is promised of rows of no sequence."""
    attention = problem.attention
    error = {name: np.zeros(reference[name].shape) for name in problem.outputs}
    sizes = {name: np.zeros(reference[name].shape) for name in problem.outputs}
    free = {name: np.ones(reference[name].shape, np.bool_) for name in problem.outputs}
    arrays_of: dict[str, dict[str, Array]] = {"error": error, "size": sizes, "free": free}
    views = {kind: {name: attention.by_head(one[name]) if name in BY_HEAD else one[name] for name in problem.outputs}
             for kind, one in arrays_of.items()}  # fmt: skip
    for name in set(free) - set(BY_HEAD):
        free[name][:] = False
    for number in range(attention.b):
        batch = 0 if attention.grouped else number
        for name, rows in (("dq", attention.queries), ("dk", attention.keys), ("dv", attention.keys)):
            start, length = rows.of(arrays, number)
            views["free"][name][batch, :, start : start + length] = False
    for one, unspecified, by_output in bounds:
        place = one.place
        of_keys = place.batch, one.shared, one.key_rows
        here: dict[str, tuple[int | slice, ...]] = {"dq": (place.batch, place.head, place.memory_rows)}
        here |= {"dk": of_keys, "dv": of_keys}
        if "dbias" in error:
            here["dbias"] = bias_place(problem, one)
        if "dsink" in error:
            here["dsink"] = (place.head,)
        for name, at in here.items():
            views["free"][name][at] |= unspecified
            views["error"][name][at] += by_output[name][0]
            views["size"][name][at] += by_output[name][1]
    what = f"P and dS rounded to {attention.dtype}, scores and sums in f32 over {attention.d} channels"
    found = {}
    for name in problem.outputs:
        lost = free[name] | (sizes[name] >= OVERFLOW) | ~np.isfinite(error[name])
        kind = find_dtype(problem.output(name).dtype)
        lost |= np.abs(reference[name]) + error[name] >= GREATEST[kind.name]
        atol = np.where(lost, 0.0, error[name]) + kind.underflow
        found[name] = Tolerance(kind.unit_roundoff, atol, what, lost)
    return found


def _bounds(
    problem: BackwardProblem, one: SoftmaxPairs, arrays: Mapping[str, Array], target: Target
) -> dict[str, tuple[Array, Array]]:
    """By output: its error from these queries, and the sum of magnitudes that it is made of."""
    attention = problem.attention
    dtype = find_dtype(attention.dtype)
    rounds = dtype.name != "bf16" or target.has("packed_bf16_convert")
    smallest = dtype.underflow if rounds and target.has("mfma_denormals") else dtype.least_normal
    with np.errstate(invalid="ignore", over="ignore"):
        q, k, do, v, o = (np.abs(part) for part in (one.q, one.k, one.do, one.v, one.o))
        lengths = [np.linalg.norm(part, axis=-1) for part in (q, k, do, v, o)]
        lse = np.where(np.isfinite(one.lse), np.abs(one.lse), 0.0)
        exponent = (attention.d + 8) * UNIT * attention.scale * np.outer(lengths[0], lengths[1])
        exponent += 8 * UNIT * lse[:, None]
        flushed = 0.0 if target.has("mfma_denormals") or dtype.name == "f32" else dtype.least_normal
        if flushed:
            exponent += attention.scale * products_lost(one.q, one.k, flushed)
        for part in score_parts(attention):
            exponent = exponent + part.error(attention, one.place, arrays)
        weights, slopes = one.weights, one.slopes
        growth = np.expm1(np.minimum(exponent, 50)) + 8 * UNIT
        of_weight = np.minimum(weights * growth + np.minimum(weights, LEAST_EXPONENTIAL), 1.0)
        of_weight = np.where(np.isfinite(exponent), of_weight, np.inf)
        of_weight = np.where(one.kept, of_weight, 0.0)
        of_slope = (attention.dv + 18) * UNIT * lengths[2][:, None]
        of_slope = of_slope * (one.factors * lengths[3][None, :] + lengths[4][:, None])
        if flushed:
            of_slope = of_slope + one.factors * products_lost(one.do, one.v, flushed)
        ds = weights * np.abs(slopes)
        of_ds = of_weight * np.abs(slopes) + (weights + of_weight) * of_slope
        added, t = max(attention.sq * problem.ratio, attention.sk) + 12, dtype.unit_roundoff
        additions, sums = UNIT * added, find_dtype("f32").underflow * problem.factor * added
        total_weights = one.factors * (of_weight + t * weights + smallest * one.kept + additions * weights)
        total_ds = of_ds + t * (ds + of_ds) + problem.factor * smallest * one.kept + additions * ds
        counted = one.factors * weights
        scale = attention.scale
        return {
            "dq": (scale * (total_ds @ k + smallest * ds.sum(1)[:, None] + sums), ds @ k),
            "dk": (scale * (total_ds.T @ q + smallest * ds.sum(0)[:, None] + sums), ds.T @ q),
            "dv": (total_weights.T @ do + smallest * counted.sum(0)[:, None] + sums, counted.T @ do),
            "dbias": (of_ds + additions * ds, ds),
        }


def _sink_bounds(problem: BackwardProblem, one: SoftmaxPairs, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """The error of a head's sink gradient from these queries, and the sum of magnitudes: sums of channels, of the
    queries of a block, and of all blocks."""
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.abs(one.do * one.o).sum(-1)
    blocks = problem.attention.b * ceil_div(problem.attention.sq, QUERIES)
    logit = arrays["sink"][one.place.head]
    found = sink_errors(logit, one.lse, sizes, STEPS + ROW_STEPS + blocks + 8)
    return found.sum(), (sink_weights(logit, one.lse) * sizes).sum()


def _unspecified(problem: BackwardProblem, one: SoftmaxPairs) -> bool:
    """Whether something on the way may be no number, or not fit: whatever the order of sums, for any pair."""
    attention = problem.attention
    inputs = (one.q, one.k, one.v, one.o, one.do)
    if not np.isfinite(one.scores[one.kept]).all() or not all(np.isfinite(part).all() for part in inputs):
        return True
    if (np.isnan(one.lse) | (one.lse == np.inf)).any():
        return True
    q, k, v, o, do = (np.abs(part).max(initial=0.0) for part in inputs)
    scores = attention.d * q * k * max(1.0, attention.scale * LOG2_E)
    rows = [np.linalg.norm(part, axis=-1).max(initial=0.0) for part in (one.do, one.v, one.o)]
    slopes = rows[0] * (problem.factor * rows[1] + rows[2])
    sums = attention.dv * do * max(v, o)
    return bool(max(scores, sums) >= OVERFLOW or slopes >= SLOPES[attention.dtype])
