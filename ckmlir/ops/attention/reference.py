"""Attention in NumPy and float64, some queries at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from ckmlir.ops.attention.part import kept_keys, score_parts, weight_parts
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array

REFERENCE_ROWS = 512
"""Queries that the reference takes at a time, so that its scores stay small."""


class Scored(Struct, frozen=True):
    """Queries with their scores (queries, keys), changed and masked, and the sequence's values (keys, channels)."""

    place: Place
    scores: Array
    values: Array


def scored(problem: Problem, arrays: Mapping[str, Array]) -> Iterator[Scored]:
    """All queries of all heads, at most REFERENCE_ROWS at a time."""
    for place in problem.places(arrays, REFERENCE_ROWS):
        query, (key, value) = problem.queries_of(place, arrays), problem.keys_of(place, arrays)
        with np.errstate(invalid="ignore"):
            scores = problem.score_scale * (query @ key.T)
        for part in score_parts(problem):
            scores = part.changed(problem, scores, place, arrays)
        scores[~kept_keys(problem, place, arrays)] = -np.inf
        yield Scored(place, scores, value)


def attention(problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """O, and LSE and what parts write where asked for."""
    o = np.zeros(problem.shape("o"))
    lse = np.zeros(lse_shape(problem))
    outputs = problem.by_head(o)
    for one in scored(problem, arrays):
        place = one.place
        logits = [part.logit(problem, place, arrays) for part in weight_parts(problem)]
        weights, total = softmax(one.scores, np.array(logits))
        with np.errstate(invalid="ignore"):
            for part in weight_parts(problem):
                weights = weights * part.factors(problem, place, arrays)
            outputs[place.batch, place.head, place.memory_rows] = problem.v_scale * (weights @ one.values)
        lse_rows(problem, lse, place)[:] = total
    found = {"o": o, "lse": lse} if problem.lse else {"o": o}
    for part in weight_parts(problem):
        found |= part.outputs(problem, arrays)
    return found


def lse_shape(problem: Problem) -> tuple[int, ...]:
    """Of LSE in memory: (b, h, queries), in group mode (h, all queries)."""
    shape = (problem.h, problem.rows("q"))
    return shape if problem.grouped else (problem.b, *shape)


def lse_rows(problem: Problem, lse: Array, place: Place) -> Array:
    """A view of a place's elements of LSE."""
    heads: Array = lse if problem.grouped else lse[place.batch]
    rows: Array = heads[place.head, place.memory_rows]
    return rows


def softmax(scores: Array, logits: Array) -> tuple[Array, Array]:
    """Weights and the logarithm of the sum of exponentials of every row, which `logits` join without a weight; rows of
    -inf give zeros and -inf."""
    largest = np.maximum(scores.max(axis=1, initial=-np.inf), logits.max(initial=-np.inf))
    shift = np.where(largest == -np.inf, 0.0, largest)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - shift[:, None])
        total = weights.sum(axis=1) + np.exp(logits[None, :] - shift[:, None]).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return weights / np.where(total == 0, 1.0, total)[:, None], shift + np.log(total)
