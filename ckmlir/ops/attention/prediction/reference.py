"""The map of `predict_blocks` in NumPy and float64, and which of its elements rounding may decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.attention.head_strides import by_head
from ckmlir.ops.attention.prediction import block_means
from ckmlir.ops.attention.prediction.block_means import OPERATOR as BLOCK_MEANS
from ckmlir.ops.attention.prediction.block_means import mean_tolerances
from ckmlir.ops.attention.prediction.problem import Problem
from ckmlir.ops.attention.prediction.selection import Row, selected, undecided
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.precision import UNIT, fold_steps
from ckmlir.ops.reduction.reduce import OPERATOR as REDUCE
from ckmlir.targets import Target


class Means(Struct, frozen=True):
    """Means and likeness of the blocks of a head, how far both may be off, and where nothing is promised of them."""

    means: Array
    errors: Array
    alike: Array
    margins: Array
    free: Array

    def near(self, threshold: float) -> Array:
        """Blocks of which rounding may decide whether they are alike."""
        found: Array = (np.abs(self.alike - threshold) <= self.margins) | self.free
        return found


def predicted(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """The map."""
    found = np.zeros(problem.shape, np.int8)
    sides = {name: BLOCK_MEANS.reference(side, given) for name, side, given in _sides(problem, arrays)}
    reach, columns = problem.reach(), np.arange(problem.shape[3])
    for batch, head in np.ndindex(problem.shape[:2]):
        similar, share = _thresholds(problem, arrays, head)
        q, k = ({key: one[batch, place] for key, one in sides[name].items()}
                for name, place in (("q", head), ("k", head // problem.ratio)))  # fmt: skip
        with np.errstate(invalid="ignore"):
            scores = problem.scale * (q["means"] @ k["means"].T)
            alike = {"q": q["alike"] > similar, "k": k["alike"] > similar}
        for row in range(problem.shape[2]):
            exists = columns < reach[row]
            taken = exists & ~alike["k"] if alike["q"][row] else exists.copy()
            among = exists & alike["k"]
            taken[among] |= selected(Row(scores[row, among], 0 * scores[row, among], share, problem.topk is not None))
            found[batch, head, row] = taken | (exists & (columns == 0) & problem.first)
    return found


def unpromised(problem: Problem, arrays: Mapping[str, Array], target: Target) -> Array:
    """Elements of the map of which nothing is promised.

    A score is off by what the means are, and by a rounding for each product and each sum of them. Where a block of keys
    is about as alike as it has to be, nothing is promised of rows that look at scores; where one of queries is, of
    blocks that its scores do not take in any case.
    """
    found = np.zeros(problem.shape, np.bool_)
    sides = {
        name: _means(side, given, moved, target) for name, side, given, moved in _with_errors(problem, arrays, target)
    }
    reach, columns = problem.reach(), np.arange(problem.shape[3])
    steps = fold_steps(problem.shape[3])
    for batch, head in np.ndindex(problem.shape[:2]):
        similar, share = _thresholds(problem, arrays, head)
        q, k = sides["q"][batch][head], sides["k"][batch][head // problem.ratio]
        with np.errstate(invalid="ignore", over="ignore"):
            scores = problem.scale * (q.means @ k.means.T)
            sizes = (np.abs(q.means) + q.errors) @ (np.abs(k.means) + k.errors).T
            errors = np.abs(q.means) @ k.errors.T + q.errors @ (np.abs(k.means) + k.errors).T
            errors = problem.scale * (errors + (problem.queries.d + 2) * UNIT * sizes)
            alike = k.alike > similar
        near, near_keys = q.near(similar), k.near(similar)
        for row in range(problem.shape[2]):
            exists = columns < reach[row]
            if not (near[row] or q.alike[row] > similar):
                continue
            among = exists & alike
            if (near_keys & exists).any() or not np.isfinite(scores[row, among]).all():
                found[batch, head, row] = exists
                continue
            one = Row(scores[row, among], errors[row, among], share, problem.topk is not None)
            open_ = undecided(one, steps)
            found[batch, head, row, among] = open_ | ~selected(one) if near[row] else open_
            found[batch, head, row, :1] &= not problem.first
    return found


def with_lists(problem: Problem, found: Array) -> dict[str, Array]:
    """Outputs, of the map."""
    if not problem.lists:
        return {"block_map": found}
    counts = found.sum(-1, dtype=np.int64)
    order = np.argsort(found == 0, axis=-1, kind="stable")
    listed = np.where(np.arange(problem.shape[3]) < counts[..., None], order, -1)
    return {"block_map": found, "block_list": listed, "block_counts": counts}


def map_tolerances(problem: Problem, free: Array) -> dict[str, Tolerance]:
    """Of the outputs; all but what nothing is promised of is exact."""
    rows: Array = np.asarray(free.any(axis=-1))
    promised = {"block_map": free}
    if problem.lists:
        promised |= {"block_list": np.broadcast_to(rows[..., None], free.shape), "block_counts": rows}
    what = "a choice, exact where rounding does not decide it"
    return {name: Tolerance(0.0, 0.0, what, one) for name, one in promised.items()}


def _thresholds(problem: Problem, arrays: Mapping[str, Array], head: int) -> tuple[float, float]:
    """What `alike` has to exceed, and the share, or the number, that is wanted."""
    similar, cdf = arrays["thresholds"][head] if problem.by_head else (problem.similar, problem.cdf)
    share = problem.count if problem.topk is not None else np.float32(cdf)
    return float(np.float32(similar)), float(share)


def mean_of_keys(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """K's mean over the sequence (b, hk, d), in float64."""
    rows = by_head(problem.keys.layout, arrays["k"]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        found: Array = rows.sum(2) / max(problem.keys.s, 1)
    return found


def mean_error(problem: Problem, arrays: Mapping[str, Array], mean: Array, target: Target) -> Array | float:
    """How far it may be off in memory."""
    if not problem.keys.s:
        return 0.0
    tolerance = REDUCE.tolerances(problem.mean, {"x": arrays["k"]}, {"y": mean}, target)["y"]
    return tolerance.atol + tolerance.rtol * np.abs(mean) + UNIT * np.abs(mean)


def _sides(problem: Problem, arrays: Mapping[str, Array]) -> list[tuple[str, block_means.Problem, dict[str, Array]]]:
    """Arrays of `block_means` of queries and of keys."""
    found = [("q", problem.queries, {"x": arrays["q"]}), ("k", problem.keys, {"x": arrays["k"]})]
    if problem.keys.shift:
        found[1][2]["shift"] = mean_of_keys(problem, arrays)
    return found


def _with_errors(
    problem: Problem, arrays: Mapping[str, Array], target: Target
) -> list[tuple[str, block_means.Problem, dict[str, Array], Any]]:
    """The same, and how far their shift may be off."""
    return [
        (name, side, given, mean_error(problem, arrays, given["shift"], target) if "shift" in given else 0.0)
        for name, side, given in _sides(problem, arrays)
    ]


def _means(side: block_means.Problem, given: dict[str, Array], moved: Any, target: Target) -> list[list[Means]]:
    """By batch and head."""
    reference = BLOCK_MEANS.reference(side, given)
    bounds = mean_tolerances(side, given, BLOCK_MEANS.spec(side, target), moved)
    means, alike = bounds["means"], bounds["alike"]
    errors = means.atol + means.rtol * np.abs(np.nan_to_num(reference["means"], posinf=0, neginf=0))
    lost = np.asarray(np.broadcast_to(means.unspecified, errors.shape).any(-1) | alike.unspecified)
    return [
        [
            Means(reference["means"][place], errors[place], reference["alike"][place], np.asarray(alike.atol)[place],
                  lost[place])
            for place in ((batch, head) for head in range(side.h))
        ]
        for batch in range(side.b)
    ]  # fmt: skip
