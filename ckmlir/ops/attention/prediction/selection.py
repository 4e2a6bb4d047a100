"""Which blocks a row of scores selects, in NumPy: exactly, and where rounding may decide.

Blocks that take part have a weight each, exp(score) or 1. In the order of scores, the largest first and of equal ones
the lower number, a block is selected while the weights before it add up to less than what is wanted: a share of the sum
of all of them, or a number of blocks.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from ckmlir.ops.comparison import Array
from ckmlir.ops.precision import UNIT
from ckmlir.ops.request import LEAST_NORMAL_F32


class Row(Struct, frozen=True):
    """Scores of the blocks that take part, natural exponents, and how far each may be off.

    Attributes:
        share: of the sum of all weights that is wanted; with `counted` a number of blocks.
    """

    scores: Array
    errors: Array
    share: float
    counted: bool

    def weights(self) -> Array:
        """Of each block."""
        if self.counted:
            return np.ones_like(self.scores)
        found: Array = np.exp(self.scores - self.scores.max(initial=-np.inf))
        return found

    def wanted(self) -> float:
        """What weights have to add up to, more than nothing."""
        whole = 1.0 if self.counted else float(self.weights().sum())
        return max(self.share * whole, LEAST_NORMAL_F32)


def selected(row: Row) -> Array:
    """Whether each block is selected."""
    order = np.argsort(-row.scores, kind="stable")
    weights = row.weights()[order]
    found = np.zeros(len(order), np.bool_)
    found[order] = np.cumsum(weights) - weights < row.wanted() if len(order) else False
    found[order[:1]] = True
    return found


def undecided(row: Row, roundings: int) -> Array:
    """Blocks of which rounding may decide whether they are selected. Sums of weights in f32 take so many roundings.

    Blocks whose scores are closer than their errors may be in either order. So the sum before a block is between that
    of the weights of those that are larger in any case, and of those that may be. A weight is off by its exponent's
    error and some roundings, of the exponent in proportion to it; numbers of blocks are exact.
    """
    weights, count = row.weights(), len(row.scores)
    relative = 0.0
    if not row.counted:
        relative = float((row.errors + 4 * UNIT * (np.abs(row.scores) + 1)).max(initial=0.0)) * 2 + roundings * UNIT
    high, low = row.scores + row.errors, row.scores - row.errors
    least = _sum_above(low, weights, high, side="right")
    most = _sum_above(high, weights, low, side="left") - weights
    wanted = row.wanted()
    surely = (most * (1 + relative) < wanted * (1 - 2 * relative)) | (
        _sum_above(high, np.ones(count), low, "left") < 1.5
    )
    never = (least * (1 - relative) >= wanted * (1 + 2 * relative)) & (least > 0)
    found: Array = ~surely & ~never
    return found


def _sum_above(keys: Array, weights: Array, limits: Array, side: Literal["left", "right"]) -> Array:
    """For each limit the sum of the weights whose keys are above it, or with side="left" also those at it."""
    order = np.argsort(keys)
    sums = np.concatenate([[0.0], np.cumsum(weights[order[::-1]])])
    found: Array = sums[len(keys) - np.searchsorted(keys[order], limits, side)]
    return found
