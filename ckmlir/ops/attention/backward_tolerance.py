"""How far gradients of attention may be from the exact ones: first-order bounds of f32's errors, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ckmlir.ops.attention.backward_problem import OUTPUTS, BackwardProblem
from ckmlir.ops.attention.backward_reference import HeadRows, head_rows
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import OVERFLOW, UNIT
from ckmlir.targets import Target

GREATEST = {"f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127}
"""Finite numbers of a dtype go so far."""


def backward_tolerances(
    problem: BackwardProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
) -> dict[str, Tolerance]:
    """Tolerances of dq, dk and dv; u is f32's unit roundoff, t that of the dtype, every sum is over f32 products.

    With |q|, |k|, |do|, |v| and |o| Euclidean lengths of rows:

        exponent  E  = (d + 8) u scale |q| |k| + 8 u |lse|       d products, scaling, LSE to the base 2, the argument
        weight    eP = min(P (exp(E) - 1 + 8 u), 1)              weights are at most 1
        slope     eL = (dv + 16) u |do| (|v| + |o|)              dP, and delta with which it begins
        dS        eS = eP |L| + (P + eP) eL
        rounded   rP = t P + smallest,  rS = t |dS| + smallest   where matrix instructions take denormals for zero,
                                                                 the smallest is the dtype's smallest normal number
        dV  sum (eP + rP + n u P) |do| + smallest sum P          n additions in any order, and denormals of dO
        dK  scale (sum (eS + rS + n u |dS|) |q| + smallest sum |dS|)
        dQ  the same with |k|
        all + t |output| + the underflow

    Nothing is promised of a head with inputs that are no numbers, or with scores, slopes or sums that f32 or the dtype
    may not hold, nor of those that share its keys.
    """
    dtype = find_dtype(problem.dtype)
    error = {name: np.zeros(reference[name].shape) for name in OUTPUTS}
    sizes = {name: np.zeros(reference[name].shape) for name in OUTPUTS}
    free = {name: np.zeros(reference[name].shape, np.bool_) for name in OUTPUTS}
    views = {kind: {name: problem.by_head(one[name]) for name in OUTPUTS} for kind, one in
             (("error", error), ("size", sizes), ("free", free))}  # fmt: skip
    for one in head_rows(problem, arrays):
        here = {"dq": (one.batch, one.head, slice(one.rows.start, one.rows.stop)),
                "dk": (one.batch, one.shared), "dv": (one.batch, one.shared)}  # fmt: skip
        unspecified = _unspecified(problem, one)
        bounds = _bounds(problem, one, target)
        for name, place in here.items():
            views["free"][name][place] |= unspecified
            views["error"][name][place] += bounds[name][0]
            views["size"][name][place] += bounds[name][1]
    what = f"P and dS rounded to {problem.dtype}, scores and sums in f32 over {problem.d} channels"
    found = {}
    for name in OUTPUTS:
        lost = free[name] | (sizes[name] >= OVERFLOW) | ~np.isfinite(error[name])
        lost |= np.abs(reference[name]) + error[name] >= GREATEST[dtype.name]
        atol = np.where(lost, 0.0, error[name]) + dtype.underflow
        found[name] = Tolerance(dtype.unit_roundoff, atol, what, lost)
    return found


def _bounds(problem: BackwardProblem, one: HeadRows, target: Target) -> dict[str, tuple[Array, Array]]:
    """By output: its error from these queries, and the sum of magnitudes that it is made of."""
    dtype = find_dtype(problem.dtype)
    smallest = dtype.underflow if target.has("mfma_denormals") else dtype.least_normal
    with np.errstate(invalid="ignore", over="ignore"):
        q, k, do, v, o = (np.abs(part) for part in (one.q, one.k, one.do, one.v, one.o))
        lengths = [np.linalg.norm(part, axis=-1) for part in (q, k, do, v, o)]
        lse = np.where(np.isfinite(one.lse), np.abs(one.lse), 0.0)
        exponent = (problem.d + 8) * UNIT * problem.scale * np.outer(lengths[0], lengths[1]) + 8 * UNIT * lse[:, None]
        weights, slopes = one.weights, one.slopes
        of_weight = np.where(one.kept, np.minimum(weights * (np.expm1(np.minimum(exponent, 50)) + 8 * UNIT), 1.0), 0.0)
        of_slope = (problem.dv + 16) * UNIT * lengths[2][:, None] * (lengths[3][None, :] + lengths[4][:, None])
        ds = weights * np.abs(slopes)
        of_ds = of_weight * np.abs(slopes) + (weights + of_weight) * of_slope
        additions = UNIT * (max(problem.sq * problem.ratio, problem.sk) + 8)
        t = dtype.unit_roundoff
        total_weights = of_weight + t * weights + smallest * one.kept + additions * weights
        total_ds = of_ds + t * (ds + of_ds) + smallest * one.kept + additions * ds
        scale = problem.scale
        return {
            "dq": (scale * (total_ds @ k + smallest * ds.sum(1)[:, None]), ds @ k),
            "dk": (scale * (total_ds.T @ q + smallest * ds.sum(0)[:, None]), ds.T @ q),
            "dv": (total_weights.T @ do + smallest * weights.sum(0)[:, None], weights.T @ do),
        }


def _unspecified(problem: BackwardProblem, one: HeadRows) -> bool:
    """Whether something on the way may be no number, or not fit: whatever the order of sums, for any pair."""
    inputs = (one.q, one.k, one.v, one.o, one.do)
    if not all(np.isfinite(part).all() for part in inputs) or (np.isnan(one.lse) | (one.lse == np.inf)).any():
        return True
    q, k, v, o, do = (np.abs(part).max(initial=0.0) for part in inputs)
    scores = problem.d * q * k * max(1.0, problem.scale * math.log2(math.e))
    rows = [np.linalg.norm(part, axis=-1).max(initial=0.0) for part in (one.do, one.v, one.o)]
    slopes = rows[0] * (rows[1] + rows[2])
    sums = problem.dv * do * max(v, o)
    return bool(max(scores, sums) >= OVERFLOW or slopes >= GREATEST[problem.dtype])
