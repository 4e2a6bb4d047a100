"""Gradients of attention in float64, some queries of a head at a time: what weights and slopes are, `Pairs` say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.backward.sink_gradient import sink_weights
from ckmlir.ops.attention.part import weight_parts
from ckmlir.ops.attention.problem import Place
from ckmlir.ops.attention.reference import lse_rows, scored
from ckmlir.ops.comparison import Array


@dataclass(frozen=True)
class Pairs(ABC):
    """Some queries of a head and the keys of their sequence, in float64.

    Attributes:
        shared: the head of K and V; key_rows: the keys' rows in the arrays.
        q, do: of the queries; k, v: of the keys.
        scores: (queries, keys), scaled and changed; kept: whether a query attends to a key.
        factors: (queries, keys), what weights are multiplied with behind the sum.
    """

    place: Place
    shared: int
    key_rows: slice
    q: Array
    do: Array
    k: Array
    v: Array
    scores: Array
    kept: Array
    factors: Array

    @classmethod
    def rows(cls, problem: BackwardProblem, arrays: Mapping[str, Array], place: Place) -> tuple[Any, ...]:
        """What such pairs have besides."""
        return ()

    @property
    @abstractmethod
    def weights(self) -> Array:
        """(queries, keys), 0 where a query does not attend to a key."""

    @property
    @abstractmethod
    def ds(self) -> Array:
        """The gradients for scores, (queries, keys)."""


@dataclass(frozen=True)
class SoftmaxPairs(Pairs):
    """Pairs whose weights are at most 1.

    Attributes:
        o, lse: of the queries.
    """

    o: Array
    lse: Array

    @classmethod
    def rows(cls, problem: BackwardProblem, arrays: Mapping[str, Array], place: Place) -> tuple[Any, ...]:
        """See `Pairs`."""
        o = problem.attention.by_head(arrays["o"])[place.batch, place.head, place.memory_rows]
        return o.astype(np.float64), lse_rows(problem.attention, arrays["lse"], place).astype(np.float64)

    @property
    def weights(self) -> Array:
        """See `Pairs`."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(self.kept, np.minimum(np.exp(self.scores - self.lse[:, None]), 1.0), 0.0)

    @property
    def slopes(self) -> Array:
        """dP with its factors, less rowsum(dO·O), (queries, keys)."""
        with np.errstate(invalid="ignore"):
            found: Array = self.factors * (self.do @ self.v.T) - self.delta[:, None]
            return found

    @property
    def ds(self) -> Array:
        """See `Pairs`."""
        return self.weights * self.slopes

    @property
    def delta(self) -> Array:
        """rowsum(dO·O), by query."""
        with np.errstate(invalid="ignore"):
            found: Array = (self.do * self.o).sum(-1)
            return found


P = TypeVar("P", bound=Pairs)


def pairs(problem: BackwardProblem, arrays: Mapping[str, Array], kind: type[P]) -> Iterator[P]:
    """All queries of all heads, with weights of a kind."""
    attention = problem.attention
    q, do = (attention.by_head(arrays[name]) for name in ("q", "do"))
    for one in scored(attention, arrays):
        place = one.place
        start, length = attention.keys.of(arrays, place.number)
        at = place.batch, place.head, place.memory_rows
        k, _ = attention.keys_of(place, arrays)
        factors = np.ones(one.scores.shape)
        for part in weight_parts(attention):
            factors = factors * part.factors(attention, place, arrays)
        yield kind(
            place, place.head // problem.ratio, slice(start, start + length), q[at].astype(np.float64),
            do[at].astype(np.float64), k.astype(np.float64), one.values, one.scores,
            attention.mask.kept(place.rows, place.queries, place.keys) & (one.scores != -np.inf),
            factors, *kind.rows(problem, arrays, place),
        )  # fmt: skip


def gradients(
    problem: BackwardProblem, arrays: Mapping[str, Array], kind: type[Pairs] = SoftmaxPairs
) -> dict[str, Array]:
    """dQ, dK and dV as functions of all inputs, O and LSE included, in the layout of memory; zeros in rows of no
    sequence.

    P = min(exp(S - LSE), 1), dS = P ∘ (F ∘ dO·Vᵀ - rowsum(dO·O)), dV = (P ∘ F)ᵀ·dO, dK = scale·dSᵀ·Q, dQ = scale·dS·K,
    the gradient of the bias is dS, summed over those that share it, that of a sink logit minus the sum of its weights
    times rowsum(dO·O), where F are the factors of dropout. Pairs of another kind have other P and dS.
    """
    attention = problem.attention
    found = {name: np.zeros(problem.output(name).shape) for name in problem.outputs}
    dq, dk, dv = (attention.by_head(found[name]) for name in ("dq", "dk", "dv"))
    for one in pairs(problem, arrays, kind):
        place = one.place
        with np.errstate(invalid="ignore", over="ignore"):
            weights, ds = one.weights, one.ds
            if "dbias" in found:
                found["dbias"][bias_place(problem, one)] += ds
            if "dsink" in found and isinstance(one, SoftmaxPairs):
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
