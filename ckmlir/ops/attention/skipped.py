"""What skipped blocks take away from attention: a bound for any choice of them that a threshold allows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.attention.moved_scores import moved
from ckmlir.ops.attention.part import weight_parts
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import lse_rows, lse_shape, scored, softmax
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.precision import LN_2


def skipped_error(
    problem: Problem, arrays: Mapping[str, Array], found: Mapping[str, Tolerance], threshold: float
) -> dict[str, Tolerance]:
    """Tolerances `found` of o and lse, enlarged by what may be missing.

    A key may be skipped where its score is below the largest one less the threshold, in powers of two, and twice its
    error, which is within LSE's tolerance, but for what rounding before the kernel moves it by. With exact weights p
    whose sum over such keys is D, and any of them left out, O is wrong by at most (sum p|v| over them + D |O|) /
    (1 - D), LSE by -log(1 - D).
    """
    error, share = np.broadcast_to(found["lse"].atol, lse_shape(problem)), np.zeros(lse_shape(problem))
    missing = np.zeros(problem.shape("o"))
    outputs = problem.by_head(missing)
    for one in scored(problem, arrays):
        place = one.place
        logits = np.array([part.logit(problem, place, arrays) for part in weight_parts(problem)])
        weights, _ = softmax(one.scores, logits)
        largest = np.maximum(one.scores.max(axis=1, initial=-np.inf), logits.max(initial=-np.inf))
        with np.errstate(invalid="ignore"):
            off = lse_rows(problem, error, place) + moved(problem, place, arrays).max(axis=1, initial=0.0)
            limit = largest - threshold * LN_2 + 2 * off
            small = np.nan_to_num(np.where(one.scores <= limit[:, None], weights, 0.0))
            sizes = np.nan_to_num(np.abs(one.values))
            left = np.maximum(1 - small.sum(axis=1), 1e-9)
            kept = np.nan_to_num(np.abs(weights @ one.values))
        lse_rows(problem, share, place)[:] = -np.log(left)
        lost = small @ sizes + small.sum(axis=1)[:, None] * kept
        outputs[place.batch, place.head, place.memory_rows] = problem.v_scale * lost / left[:, None]
    more = {"o": missing, "lse": share}
    reason = f"blocks below 2^-{threshold:g} of the largest weight may be missing"
    return {
        name: replace(one, atol=one.atol + more[name], reason=f"{one.reason}; {reason}") for name, one in found.items()
    }
