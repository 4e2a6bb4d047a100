"""What scores that are moved before the softmax take from attention: a bound query by query."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.attention.part import scale_parts, weight_parts
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.attention.reference import lse_rows, lse_shape, scored, softmax
from ckmlir.ops.comparison import Array, Tolerance

MOST_MOVED = 60.0
"""Distance of a score up to which its exponential is a number."""


def moved(problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
    """How far each score (rows, keys) of a place may be off since Q and K were rounded."""
    found: Array = np.zeros((len(place.rows), place.keys))
    for part in scale_parts(problem):
        found = found + part.moved(problem, place, arrays)
    return found


def moved_error(problem: Problem, arrays: Mapping[str, Array], found: Mapping[str, Tolerance]) -> dict[str, Tolerance]:
    """Tolerances `found` of o and lse, enlarged by what moved scores do, which may be much for a few keys.

    With exact weights p, and scores that are off by up to e, let L = log(sum p exp(e)), which is at least
    -log(sum p exp(-e)) too. LSE is off by at most L, each weight by at most p (exp(e + L) - 1), and the errors that
    there are besides grow as the weights do.
    """
    lse, grown = np.zeros(lse_shape(problem)), np.ones(lse_shape(problem))
    more = np.zeros(problem.shape("o"))
    outputs = problem.by_head(more)
    for one in scored(problem, arrays):
        place = one.place
        logits = np.array([part.logit(problem, place, arrays) for part in weight_parts(problem)])
        with np.errstate(invalid="ignore"):
            weights = np.nan_to_num(softmax(one.scores, logits)[0])
            off = np.where(weights > 0, moved(problem, place, arrays), 0.0)
            held = off < MOST_MOVED
            off = np.where(held, off, 0.0)
            whole = np.log1p((weights * np.expm1(off)).sum(axis=1))
            lost = (weights * np.expm1(off + whole[:, None])) @ np.nan_to_num(np.abs(one.values))
        lse_rows(problem, lse, place)[:] = whole
        lse_rows(problem, grown, place)[:] = np.where(held.all(axis=1), np.exp(off.max(axis=1, initial=0) + whole), 0)
        outputs[place.batch, place.head, place.memory_rows] = problem.v_scale * lost
    free = grown == 0
    rows = [one[None] if problem.grouped else one for one in (grown, free)]
    factors, lost_rows = (problem.by_head(one[..., None]) for one in rows)
    by_name = {"lse": (grown, lse, free), "o": (factors, more, lost_rows)}
    reason = "steps that rounding Q and K may cross"
    return {
        name: replace(
            one, atol=np.asarray(one.atol) * by_name[name][0] + by_name[name][1],
            unspecified=one.unspecified | by_name[name][2], reason=f"{one.reason}; {reason}",
        )
        for name, one in found.items()
    }  # fmt: skip
