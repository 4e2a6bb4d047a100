"""One exponent that the weights of all queries are taken from, where scores are bounded.

A softmax takes weights from its query's largest score, so that none overflows. Where exponents to the base 2 of scores,
masked ones apart, lie within ±REACH, weights may as well be taken from the exponent 0: nothing is looked for, and no
sum is rescaled. What P is rounded to holds all weights as normal numbers then, and f32 their sums; times V these are
within f32 but for values near its ends, of which `fmha_tolerances` says what is lost. A logit that joins a query's sum
is known before the first key, so that weights are taken from it where it is positive.

Where P does not hold that many, but f32 holds weights that are taken from any exponent among the bounds, within
±SPREAD, nothing has to be looked for either (`weights_kernel.Lazy`). Weights are taken from a whole exponent e, 0 at
first. Only where those of a block come to more than MOST, or all so far to less than one, e becomes the whole part of
the exponent of their sum, and weights and sums are multiplied by a power of two. So e is from -SPREAD - 1 to SPREAD +
log2 (keys), weights are at most 2^(2 SPREAD + 1), and 2^8 of them, a block's, come to at most 2^125. What P is rounded
to is at most MOST, which f16 holds, and the sum of all weights is at least one behind each block, as beside the largest
score: what is rounded, and below P's or f32's least, counts for no more.

Between bounds of ±APART f32 does not hold those that are taken from the lowest exponents (`weights_kernel.Apart`). So
weights of a block are taken from at least ROOM below the upper bound, 2^8 of them come to at most 2^125, and they are
multiplied by two to the power of what e is lower. Then weights are lost that come to less than 2^(2 APART + 1 - ROOM)
times f32's least normal number, and sums of one are multiplied by more than that on their way.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ckmlir.ops.attention.part import score_parts, weight_parts
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import lse_rows, lse_shape, scored, softmax
from ckmlir.ops.attention.schedule_choice import SLACK
from ckmlir.ops.comparison import Array
from ckmlir.ops.precision import LEAST_EXPONENTIAL, LOG2_E

REACH = {"f16": 13.0, "bf16": 80.0, "f32": 80.0}
"""By type of P: f16 is normal from 2^-14 on and ends below 2^16; the others have f32's exponents, a few of which sums
over keys and elements of V need. 8-bit types hold too few."""

SPREAD = {"f16": 58.0}
"""By type of P, as REACH: f32 holds a block of weights between both ends. The other types of 16 and 32 bits take as
large a cap from one exponent."""
APART, ROOM = 104.0, 117.0
"""For all of these types."""
MOST = {"f16": 2.0**15, **dict.fromkeys(("bf16", "f32"), 2.0**SLACK)}
"""By type of P, what weights of a block come to: f16 holds it, and f32 products with any V of f16; with that of others
as where the largest score is followed lazily."""
LOST = LEAST_EXPONENTIAL * 2.0 ** (2 * APART + 1 - ROOM)
"""Weights that may be zero where `apart`."""


def taken_from(bound: float, dtype: str) -> str:
    """What weights of scores (natural exponents) of at most this magnitude, rounded to a type, may be taken from:
    `level` for one exponent, `lazy` for one that follows their sum, `apart` for one from which those of a block may be
    apart, nothing for the largest score alone."""
    exponent = bound * LOG2_E
    if exponent <= REACH.get(dtype, 0.0):
        return "level"
    if exponent <= SPREAD.get(dtype, 0.0):
        return "lazy"
    return "apart" if exponent <= APART and dtype in MOST else ""


def is_level(problem: Problem) -> bool:
    """Whether the kernels of a problem take all weights from one exponent, as `weights_kernel.softmax` does."""
    return "level" in _bounds(problem) and all(part.levels for part in weight_parts(problem))


def lost_weight(problem: Problem) -> float:
    """Exponentials below this may be zero, as parts of a sum that is at least one."""
    return LOST if "apart" in _bounds(problem) else LEAST_EXPONENTIAL


def _bounds(problem: Problem) -> list[str]:
    return [part.bounds for part in score_parts(problem)]


def sums_of_weights(problem: Problem, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Those of each query, in LSE's layout, of weights taken from one exponent: of keys alone, from the exponent 0, as
    shares of keys may have to hold them, and with the logit that joins them, from that where it is positive; 1
    for no sum.
    """
    alone, joined = np.ones(lse_shape(problem)), np.ones(lse_shape(problem))
    for one in scored(problem, arrays):
        logits = np.array([part.logit(problem, one.place, arrays) for part in weight_parts(problem)])
        start = logits.max(initial=0.0)
        for found, others, shift in ((alone, logits[:0], 0.0), (joined, logits, start)):
            _, total = softmax(one.scores, others)
            with np.errstate(invalid="ignore"):
                exponent = total - shift
            lse_rows(problem, found, one.place)[:] = np.exp(np.where(np.isfinite(exponent), exponent, 0.0))
    return alone, joined
