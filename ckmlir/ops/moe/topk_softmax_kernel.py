"""The topk_softmax kernels as tile code.

Round j finds the best of what is left, with the lowest index among equals, and puts score and index at column j of two
tiles that lie like the scores; so the loop's length is k, whatever k is. An expert that was chosen gets the index
of nobody and minus infinity as its score: one that is left, and has minus infinity itself, goes before it.
"""

from collections.abc import Sequence
from typing import Any

from ckmlir.lang import Kernel, Tile, coordinates, exp2, full, loop, reduce, where
from ckmlir.ops.moe.topk_softmax import TopkSoftmaxSpec
from ckmlir.ops.rows.block_kernel import RowBlock, row_kernel
from ckmlir.ops.softmax.softmax import LOG2_E
from ckmlir.ops.softmax.softmax_kernel import INFINITY, row_maximum
from ckmlir.targets import Target

NOBODY = 2**31 - 1


def build(spec: TopkSoftmaxSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        given = block.load("x", 0)
        scores = block.inside(where(given.equals(given), given, -INFINITY), 0, -INFINITY)
        best, indices = _choose(block, scores)
        if spec.activation == "softmax" or spec.renormalize:
            largest = row_maximum(block, lambda column: scores)
        if spec.activation == "softmax":
            weights = exp2((best - largest[:, None]) * LOG2_E)
            total = block.sum(lambda column: exp2((scores - largest[:, None]) * LOG2_E))
        elif spec.renormalize:  # all by the same factor, so that those of very negative scores are not all zero
            shift = largest.minimum(0.0)
            weights = 1.0 / (exp2((shift[:, None] - best) * LOG2_E) + exp2(shift * LOG2_E)[:, None])
        else:
            weights = 1.0 / (exp2(best * -LOG2_E) + 1.0)
        if spec.renormalize:
            among = coordinates(weights, 1) < block.given.k
            total = block.sum(lambda column: where(among, weights, 0.0))
        if spec.renormalize or spec.activation == "softmax":
            weights = weights * (1.0 / where(total.equals(0.0), 1.0, total))[:, None]
        block.store(weights, "weights", 0)
        block.store(indices, "indices", 0)

    return row_kernel(spec, target, body)


def _choose(block: RowBlock, scores: Tile) -> tuple[Tile, Tile]:
    """The scores and indices of the k best, in order, in the first k columns."""
    column = coordinates(scores, 1)
    places = where(column < block.n, column, NOBODY)
    none = full(scores.lengths, NOBODY, "i32", block.distribution)
    with loop(0, block.given.k, 1, carry=[scores, places, block.full(-INFINITY), none]) as step:
        left, at, best, indices = step.carried
        score, index = reduce([left, at], 1, _better)
        taken, here = at.equals(index[:, None]), column.equals(step.index)
        step.carry(
            where(taken, -INFINITY, left), where(taken, NOBODY, at), where(here, score[:, None], best),
            where(here, index[:, None], indices),
        )  # fmt: skip
    _, _, best, indices = step.results
    return best, indices


def _better(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """The larger of two (score, index); of equal scores the lower index."""
    first = (left[0] > right[0]) | (left[0].equals(right[0]) & (left[1] < right[1]))
    return [first.select(one, other) for one, other in zip(left, right, strict=True)]
