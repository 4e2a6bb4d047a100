"""Where nothing is promised of O since V has elements that are not finite, or whose sums may not be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ckmlir.ops.attention.part import kept_keys, scale_parts, weight_parts
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import Scored, lse_rows, scored, softmax
from ckmlir.ops.attention.schedule_choice import SLACK
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import OVERFLOW

CERTAIN = 1.0
"""A key within this of the LSE has a weight that no type of P takes for zero."""
NEGLIGIBLE = 80.0
"""A key within this of it has one that f32 does not, so that its workgroup's sums count."""
EXACT = 0.25
"""Errors of a score up to which that can be said."""


def largest_values(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """The largest finite magnitude that V of a sequence may stand for in each channel, if the largest elements have the
    largest scales: so large is what an error of the largest weight counts for. As O by heads."""
    return _of_channels(problem, arrays, lambda sizes: sizes.max(axis=0, initial=0.0))


def largest_sums(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """What sums of weights times V may come to before they are divided by the sum of the weights, which are up to two
    to the power of `SLACK` where arithmetic is woven; else as `largest_values`."""
    return _of_channels(problem, arrays, lambda sizes: 2.0**SLACK * sizes.sum(axis=0))


def _of_channels(problem: Problem, arrays: Mapping[str, Array], over: Callable[[Array], Array]) -> Array:
    """What `over` makes of the finite magnitudes (keys, channels) of each sequence's V; as O by heads."""
    found, most = problem.by_head(np.zeros(problem.shape("o"))), 0.0 if scale_parts(problem) else 1.0
    columns: tuple[tuple[int, int], Array] | None = None
    for place in problem.places(arrays):
        head = place.number, place.head // (problem.h // problem.hk)
        if columns is None or columns[0] != head:
            sizes = np.abs(problem.source.rows(problem, place, arrays)[1].astype(np.float64))
            columns = head, over(np.nan_to_num(sizes, posinf=0))
            for part in scale_parts(problem):
                most = max(most, float(np.max(part.scales(problem, "v", place, arrays), initial=0.0)))
        found[place.batch, place.head, place.memory_rows] = columns[1]
    return found * most


def unpromised(problem: Problem, arrays: Mapping[str, Array], sums: Array, error: Array) -> Array:
    """The elements of O, by heads, of which nothing is promised: those of channels with elements of V that are not
    finite, or whose sums may overflow.

    Something is promised of some of them nevertheless. A weight that is NaN makes all of its query's O NaN, and NaN in
    V makes its channel's NaN. Infinities whose weights are all beyond doubt add up to one, or to NaN where their signs
    differ. In doubt is whether a key that a mask cuts off is multiplied by zero, and whether a small weight becomes
    zero, which an infinity makes NaN.

    Args:
        sums: see `largest_sums`, with all factors.
        error: of the scores of each query, in LSE's layout.
    """
    found: Array = sums >= OVERFLOW
    for one in scored(problem, arrays):
        place = one.place
        here = found[place.batch, place.head, place.memory_rows]
        if here.any() or not np.isfinite(one.values).all():
            here[:] = _doubtful(problem, arrays, one, here, lse_rows(problem, error, place))
    return found


def _doubtful(problem: Problem, arrays: Mapping[str, Array], one: Scored, large: Array, error: Array) -> Array:
    """Which elements of some queries' O (queries, channels) are in doubt."""
    parts, kept = weight_parts(problem), kept_keys(problem, one.place, arrays)
    _, total = softmax(one.scores, np.array([part.logit(problem, one.place, arrays) for part in parts]))
    factors = math.prod((part.factors(problem, one.place, arrays) for part in parts), start=np.ones(kept.shape))
    with np.errstate(invalid="ignore"):
        below = total[:, None] - one.scores
        counts = kept & (factors != 0) & (error[:, None] <= EXACT)
        heard, sure = counts & (below <= NEGLIGIBLE), counts & (below <= CERTAIN)
    nan, infinite = np.isnan(one.values), np.isinf(one.values)
    nothing = _meet(heard, nan) | np.isnan(total)[:, None]
    doubt: Array = large | _meet(~kept, nan) | _meet(kept & ~heard, nan) | _meet(~sure, infinite)
    if find_dtype(problem.out).bytes == 1:
        doubt = doubt | _meet(sure, infinite)  # conversions of infinities differ from chip to chip
    return doubt & ~nothing


def _meet(keys: Array, elements: Array) -> Array:
    """Whether a query has one of its keys in a channel: (queries, keys) and (keys, channels)."""
    found: Array = keys.astype(np.float32) @ elements.astype(np.float32) > 0
    return found
