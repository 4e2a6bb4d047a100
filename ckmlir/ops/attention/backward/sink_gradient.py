"""The gradient of a sink logit in NumPy: minus the sum over queries of its weight times rowsum(dO·O)."""

from __future__ import annotations

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.precision import DENORMAL, UNIT


def sink_weights(logit: Array, lse: Array) -> Array:
    """exp(logit - LSE), at most 1, and 0 where it is not a number."""
    with np.errstate(invalid="ignore", over="ignore"):
        weights = np.exp(logit.astype(np.float64) - lse)
    found: Array = np.minimum(np.where(np.isnan(weights), 0.0, weights), 1.0)
    return found


def sink_errors(logit: Array, lse: Array, sizes: Array, roundings: int) -> Array:
    """How far a query's weight times rowsum(dO·O) may be off in f32, where `sizes` are sums of |dO·O|, with so many
    roundings in that sum and those behind it. The weight's exponent is rounded eight times, as other weights' are."""
    weights = sink_weights(logit, lse)
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = 8 * UNIT * (np.abs(lse.astype(np.float64)) + np.abs(logit))
        growth = np.expm1(np.minimum(np.where(np.isfinite(exponent), exponent, 0.0), 50)) + 8 * UNIT
    found: Array = (np.minimum(weights * growth, 1.0) + roundings * UNIT * weights) * sizes + 2 * DENORMAL
    return found
