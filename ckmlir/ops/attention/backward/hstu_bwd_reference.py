"""Gradients of attention with SiLU weights: weights and slopes in float64, and how far a kernel's may be from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.backward.reference import Pairs, pairs
from ckmlir.ops.attention.backward.tolerance import SLOPES, Bounds
from ckmlir.ops.attention.hstu_reference import STEEPEST, scale_of, silu
from ckmlir.ops.attention.part import score_parts, weight_parts
from ckmlir.ops.attention.problem import Place
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import LOG2_E, OVERFLOW, UNIT, products_lost
from ckmlir.targets import Target

CURVED = 0.5
"""The second derivative of x / (1 + exp(-x)) is at most this, at 0."""


@dataclass(frozen=True)
class GatedPairs(Pairs):
    """Pairs whose weights are SiLU's.

    Attributes:
        scale: of the weights.
    """

    scale: float

    @classmethod
    def rows(cls, problem: BackwardProblem, arrays: Mapping[str, Array], place: Place) -> tuple[Any, ...]:
        """See `Pairs`."""
        return (scale_of(problem.attention),)

    @property
    def weights(self) -> Array:
        """See `Pairs`."""
        return self.scale * silu(self.scores)

    @property
    def derivatives(self) -> Array:
        """Of weights by scores, without the scale, (queries, keys)."""
        with np.errstate(over="ignore", invalid="ignore"):
            gates = 1 / (1 + np.exp(-self.scores))
            found: Array = np.where(self.scores == -np.inf, 0.0, gates + silu(self.scores) * (1 - gates))
        return found

    @property
    def slopes(self) -> Array:
        """dP with its factors, (queries, keys)."""
        found: Array = self.factors * (self.do @ self.v.T)
        return found

    @property
    def ds(self) -> Array:
        """See `Pairs`."""
        return self.scale * self.derivatives * self.slopes


def gated_bounds(problem: BackwardProblem, arrays: Mapping[str, Array], target: Target) -> Iterator[Bounds]:
    """Bounds of all queries; u is f32's unit roundoff, t that of the dtype, every sum is over f32 products.

    With |q|, |k|, |do| and |v| Euclidean lengths of rows, w SiLU of the score s, g its gate and w' its derivative:

        score     E  = (d + 8) u scale |q| |k| + 2 u |s|         as in `silu_tolerances`; parts add theirs
        weight    eP = 1.1 E + 6 u |w| + underflow               1.1 is the steepest slope
        slope     eL = (dv + 8) u |do| |v|                       dP
        dS        eW = .5 E + 12 u (g + |w|) + underflow         the second derivative is at most .5; 1 - g is found
                  eS = eW |L| + (|w'| + eW) eL                   with an absolute error
        rounded   rP = t |w| + smallest, rS = t |dS| + smallest  see `softmax_bounds`
        dV  c F (sum (eP + rP + n u |w|) |do| + smallest sum |w|)
        dK  c F scale (sum (eS + rS + n u |dS|) |q| + smallest sum |dS|), and dQ the same with |k|
        dS  c F sum (eS + n u |dS|), over those that share a bias: its gradient

    c is the scale of weights. Kernels round w and w' divided by ln 2, so that the smallest number counts ln 2 times.
    What denormals lose that count as zero (`products_lost`) adds to score and slope, and F n underflow to the sums,
    which are denormals themselves before they are multiplied with c F.

    Nothing is promised of a head with inputs that are not numbers, or with scores, weights, slopes or sums that f32 or
    the dtype may not hold, nor of those that share its keys or bias.
    """
    for one in pairs(problem, arrays, GatedPairs):
        yield Bounds(one, _unspecified(problem, one), _bounds(problem, one, arrays, target))


def _bounds(
    problem: BackwardProblem, one: GatedPairs, arrays: Mapping[str, Array], target: Target
) -> dict[str, tuple[Array, Array]]:
    """By output: its error from these queries, and the sum of magnitudes that it is made of."""
    attention = problem.attention
    dtype, single = find_dtype(attention.dtype), find_dtype("f32")
    rounds = dtype.name != "bf16" or target.has("packed_bf16_convert")
    smallest = dtype.underflow if rounds and target.has("mfma_denormals") else dtype.least_normal
    flushed = 0.0 if target.has("mfma_denormals") or dtype.name == "f32" else dtype.least_normal
    with np.errstate(invalid="ignore", over="ignore"):
        q, k, do, v = (np.abs(part) for part in (one.q, one.k, one.do, one.v))
        lengths = [np.linalg.norm(part, axis=-1) for part in (q, k, do, v)]
        scores = np.where(one.kept, np.abs(one.scores), 0.0)
        error = (attention.d + 8) * UNIT * attention.scale * np.outer(lengths[0], lengths[1]) + 2 * UNIT * scores
        error = error + (attention.d * attention.scale + 1) * single.underflow
        of_slope = (attention.dv + 8) * UNIT * np.outer(lengths[2], lengths[3])
        if flushed:
            error = error + attention.scale * products_lost(one.q, one.k, flushed)
            of_slope = of_slope + products_lost(one.do, one.v, flushed)
        for part in score_parts(attention):
            error = error + part.error(attention, one.place, arrays)
        error = np.where(one.kept, error, 0.0)
        weights, derivatives = np.abs(silu(one.scores)), np.abs(one.derivatives)
        slopes = np.abs(one.slopes)
        gates = np.where(one.kept, 1 / (1 + np.exp(-np.where(one.kept, one.scores, 0.0))), 0.0)
        under = single.least_normal * one.kept
        of_weight = STEEPEST * error + 6 * UNIT * weights + under
        of_derivative = CURVED * error + 12 * UNIT * (gates + weights) + under
        of_ds = of_derivative * slopes + one.factors * (derivatives + of_derivative) * of_slope
        ds = derivatives * slopes
        added, t = max(attention.sq * problem.ratio, attention.sk) + 12, dtype.unit_roundoff
        additions = UNIT * added
        factor = math.prod(part.largest_factor for part in weight_parts(attention))
        least, sums = smallest * factor * one.kept, single.underflow * factor * added
        total_weights = one.factors * (of_weight + (t + additions) * weights) + least
        total_ds = of_ds + t * (ds + of_ds) + least + additions * ds
        counted = one.factors * weights
        scale, of_weights = attention.scale, abs(one.scale)
        return {
            "dq": (of_weights * scale * (total_ds @ k + smallest * ds.sum(1)[:, None] + sums), of_weights * ds @ k),
            "dk": (of_weights * scale * (total_ds.T @ q + smallest * ds.sum(0)[:, None] + sums), of_weights * ds.T @ q),
            "dv": (of_weights * (total_weights.T @ do + smallest * counted.sum(0)[:, None] + sums),
                   of_weights * counted.T @ do),
            "dbias": (of_weights * (of_ds + additions * ds), of_weights * ds),
        }  # fmt: skip


def _unspecified(problem: BackwardProblem, one: GatedPairs) -> bool:
    """Whether something on the way may be no number, or not fit: whatever the order of sums, for any pair."""
    attention = problem.attention
    inputs = (one.q, one.k, one.v, one.do)
    if not np.isfinite(one.scores[one.kept]).all() or not all(np.isfinite(part).all() for part in inputs):
        return True
    q, k, v, do = (np.abs(part).max(initial=0.0) for part in inputs)
    scores = attention.d * q * k * max(1.0, attention.scale * LOG2_E)
    rows = [np.linalg.norm(part, axis=-1).max(initial=0.0) for part in (one.do, one.v)]
    weights = 1.5 * np.abs(np.where(one.kept, one.scores, 0.0)).max(initial=0.0)
    slopes = STEEPEST * 1.5 * rows[0] * rows[1]
    sums = attention.dv * do * max(v, 1.0)
    return bool(max(scores, sums) >= OVERFLOW or max(slopes, weights) >= SLOPES[attention.dtype])
