"""Gradients of attention in float64, head by head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ckmlir.ops.attention.backward_problem import BackwardProblem
from ckmlir.ops.comparison import Array

REFERENCE_ROWS = 512
"""Queries taken at a time, so that scores stay small."""


@dataclass(frozen=True)
class HeadRows:
    """Some queries of a head, and the keys that they attend to, in float64.

    Attributes:
        batch, head, shared: of Q, and the head of K and V.
        rows: the queries' numbers.
        q, do, o, lse: of these queries; k, v: all of them.
        kept: whether a query attends to a key.
    """

    problem: BackwardProblem
    batch: int
    head: int
    shared: int
    rows: range
    q: Array
    do: Array
    o: Array
    lse: Array
    k: Array
    v: Array
    kept: Array

    @property
    def scores(self) -> Array:
        """Scaled (queries, keys), minus infinity where a query does not attend to a key."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(self.kept, self.problem.scale * (self.q @ self.k.T), -np.inf)

    @property
    def weights(self) -> Array:
        """(queries, keys), at most 1; 0 where a query does not attend to a key."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(self.kept, np.minimum(np.exp(self.scores - self.lse[:, None]), 1.0), 0.0)

    @property
    def slopes(self) -> Array:
        """dP - rowsum(dO·O), (queries, keys)."""
        with np.errstate(invalid="ignore"):
            found: Array = self.do @ self.v.T - (self.do * self.o).sum(-1, keepdims=True)
            return found


def head_rows(problem: BackwardProblem, arrays: Mapping[str, Array]) -> Iterator[HeadRows]:
    """All queries of all heads, some at a time."""
    q, k, v, o, do = (problem.by_head(arrays[name]) for name in ("q", "k", "v", "o", "do"))
    for batch in range(problem.b):
        for head in range(problem.h):
            shared = head // problem.ratio
            key, value = k[batch, shared].astype(np.float64), v[batch, shared].astype(np.float64)
            for start in range(0, problem.sq, REFERENCE_ROWS):
                rows = range(start, min(start + REFERENCE_ROWS, problem.sq))
                part = (batch, head, slice(rows.start, rows.stop))
                yield HeadRows(
                    problem, batch, head, shared, rows, q[part].astype(np.float64), do[part].astype(np.float64),
                    o[part].astype(np.float64), arrays["lse"][part].astype(np.float64), key, value,
                    problem.mask.kept(rows, problem.sq, problem.sk),
                )  # fmt: skip


def gradients(problem: BackwardProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """dQ, dK and dV as functions of all inputs, O and LSE included, in the layout of memory:

    P = min(exp(scale·Q·Kᵀ - LSE), 1), dS = P ∘ (dO·Vᵀ - rowsum(dO·O)), dV = Pᵀ·dO, dK = scale·dSᵀ·Q, dQ = scale·dS·K.
    """
    found = {name: np.zeros(problem.array(name, "out").shape) for name in ("dq", "dk", "dv")}
    dq, dk, dv = (problem.by_head(found[name]) for name in ("dq", "dk", "dv"))
    for one in head_rows(problem, arrays):
        with np.errstate(invalid="ignore", over="ignore"):
            weights = one.weights
            ds = problem.scale * weights * one.slopes
            dq[one.batch, one.head, one.rows.start : one.rows.stop] = ds @ one.k
            dk[one.batch, one.shared] += ds.T @ one.q
            dv[one.batch, one.shared] += weights.T @ one.do
    return found


def forward(problem: BackwardProblem, q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """O in the layout of memory, and LSE (b, h, sq): what belongs to Q, K and V. In f32, as inputs are made.

    A query that attends to nothing has O = 0 and LSE = -inf.
    """
    output = np.zeros(problem.array("o", "in").shape, np.float32)
    lse = np.full((problem.b, problem.h, problem.sq), -np.inf, np.float32)
    o = problem.by_head(output)
    by_head = [problem.by_head(one).astype(np.float32) for one in (q, k, v)]
    for batch in range(problem.b):
        for head in range(problem.h):
            query, key, value = by_head[0][batch, head], *(one[batch, head // problem.ratio] for one in by_head[1:])
            for start in range(0, problem.sq, REFERENCE_ROWS):
                rows = range(start, min(start + REFERENCE_ROWS, problem.sq))
                part = slice(rows.start, rows.stop)
                kept = problem.mask.kept(rows, problem.sq, problem.sk)
                scores = np.where(kept, np.float32(problem.scale) * (query[part] @ key.T), -np.inf)
                top = scores.max(-1, initial=-math.inf, keepdims=True)
                top = np.where(np.isfinite(top), top, np.float32(0))
                weights = np.exp(scores - top)
                total = weights.sum(-1, keepdims=True)
                o[batch, head, part] = weights / np.where(total > 0, total, 1) @ value
                with np.errstate(divide="ignore"):
                    lse[batch, head, part] = (top + np.log(total))[:, 0]
    return output, lse
