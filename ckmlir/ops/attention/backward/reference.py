"""Gradients of attention in float64, some queries of a head at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.backward.sink_gradient import sink_weights
from ckmlir.ops.attention.part import weight_parts
from ckmlir.ops.attention.problem import Place
from ckmlir.ops.attention.reference import lse_rows, scored
from ckmlir.ops.comparison import Array


class Pairs(Struct, frozen=True):
    """Some queries of a head and the keys of their sequence, in float64.

    Attributes:
        shared: the head of K and V; key_rows: the keys' rows in the arrays.
        q, do, o, lse: of the queries; k, v: of the keys.
        scores: (queries, keys), scaled and changed; kept: whether a query attends to a key.
        factors: (queries, keys), what weights are multiplied with behind the sum.
    """

    place: Place
    shared: int
    key_rows: slice
    q: Array
    do: Array
    o: Array
    lse: Array
    k: Array
    v: Array
    scores: Array
    kept: Array
    factors: Array

    @property
    def weights(self) -> Array:
        """(queries, keys), at most 1; 0 where a query does not attend to a key."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(self.kept, np.minimum(np.exp(self.scores - self.lse[:, None]), 1.0), 0.0)

    @property
    def slopes(self) -> Array:
        """dP with its factors, less rowsum(dO·O), (queries, keys)."""
        with np.errstate(invalid="ignore"):
            found: Array = self.factors * (self.do @ self.v.T) - self.delta[:, None]
            return found

    @property
    def delta(self) -> Array:
        """rowsum(dO·O), by query."""
        with np.errstate(invalid="ignore"):
            found: Array = (self.do * self.o).sum(-1)
            return found


def pairs(problem: BackwardProblem, arrays: Mapping[str, Array]) -> Iterator[Pairs]:
    """All queries of all heads."""
    attention = problem.attention
    q, o, do = (attention.by_head(arrays[name]) for name in ("q", "o", "do"))
    for one in scored(attention, arrays):
        place = one.place
        start, length = attention.keys.of(arrays, place.number)
        at = place.batch, place.head, place.memory_rows
        k, _ = attention.keys_of(place, arrays)
        factors = np.ones(one.scores.shape)
        for part in weight_parts(attention):
            factors = factors * part.factors(attention, place, arrays)
        yield Pairs(
            place, place.head // problem.ratio, slice(start, start + length), q[at].astype(np.float64),
            do[at].astype(np.float64), o[at].astype(np.float64),
            lse_rows(attention, arrays["lse"], place).astype(np.float64), k.astype(np.float64), one.values, one.scores,
            attention.mask.kept(place.rows, place.queries, place.keys) & (one.scores != -np.inf),
            factors,
        )  # fmt: skip


def gradients(problem: BackwardProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """dQ, dK and dV as functions of all inputs, O and LSE included, in the layout of memory; zeros in rows of no
    sequence.

    P = min(exp(S - LSE), 1), dS = P ∘ (F ∘ dO·Vᵀ - rowsum(dO·O)), dV = (P ∘ F)ᵀ·dO, dK = scale·dSᵀ·Q, dQ = scale·dS·K,
    the gradient of the bias is dS, summed over those that share it, that of a sink logit minus the sum of its weights
    times rowsum(dO·O), where F are the factors of dropout.
    """
    attention = problem.attention
    found = {name: np.zeros(problem.output(name).shape) for name in problem.outputs}
    dq, dk, dv = (attention.by_head(found[name]) for name in ("dq", "dk", "dv"))
    for one in pairs(problem, arrays):
        place = one.place
        with np.errstate(invalid="ignore", over="ignore"):
            weights = one.weights
            ds = weights * one.slopes
            if "dbias" in found:
                found["dbias"][bias_place(problem, one)] += ds
            if "dsink" in found:
                weights_of_sink = sink_weights(arrays["sink"][place.head], one.lse)
                found["dsink"][place.head] -= np.where(weights_of_sink == 0, 0.0, weights_of_sink * one.delta).sum()
            ds = attention.scale * ds
            dq[place.batch, place.head, place.memory_rows] = ds @ one.k
            dk[place.batch, one.shared, one.key_rows] += ds.T @ one.q
            dv[place.batch, one.shared, one.key_rows] += (weights * one.factors).T @ one.do
    return found


def bias_place(problem: BackwardProblem, one: Pairs) -> tuple[int, int, slice, slice]:
    """Where the slopes of some queries go in the gradient of the bias."""
    assert problem.bias_gradient
    batches, heads, _, _ = problem.bias_gradient.bias.lengths
    place = one.place
    return place.batch * (batches > 1), place.head * (heads > 1), place.memory_rows, slice(0, place.keys)
