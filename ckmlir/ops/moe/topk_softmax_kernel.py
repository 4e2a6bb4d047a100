"""The topk_softmax kernels as tile code.

Round j finds the best of what is left, with the lowest index among equals, and puts score and index at column j of two
tiles that lie like the scores; so the loop's length is k, whatever k is. An expert that was chosen gets the index
of nobody and minus infinity as its score: one that is left, and has minus infinity itself, goes before it.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

from ckmlir.lang import Kernel, Scalar, Tile, coordinates, each_element, exp2, full, loop, reduce, where
from ckmlir.ops.moe.topk_softmax import TopkSoftmaxSpec
from ckmlir.ops.precision import LOG2_E
from ckmlir.ops.rows.block_kernel import RowBlock, row_kernel
from ckmlir.ops.softmax.softmax_kernel import inverse_of_total, row_maximum
from ckmlir.targets import Target

NOBODY = 2**31 - 1


def build(spec: TopkSoftmaxSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        given = block.load("x", 0)
        scores = block.inside(each_element(lambda one: one.equals(one).select(one, -inf), given), 0, -inf)
        best, indices = _choose(block, scores)
        if spec.activation == "softmax" or spec.renormalize:
            largest = row_maximum(block, lambda column: scores)
        if spec.activation == "softmax":
            weights = each_element(_share, best, largest[:, None])
            total = block.sum(lambda column: each_element(_share, scores, largest[:, None]))
        elif spec.renormalize:  # all by the same factor, so that those of very negative scores are not all zero
            shift = largest.minimum(0.0)
            weights = each_element(
                lambda below, score, least: 1.0 / (exp2((below - score) * LOG2_E) + least),
                shift[:, None], best, exp2(shift * LOG2_E)[:, None],
            )  # fmt: skip
        else:
            weights = each_element(lambda score: 1.0 / (exp2(score * -LOG2_E) + 1.0), best)
        if spec.renormalize:
            among = coordinates(weights, 1) < block.given.k
            total = block.sum(lambda column: where(among, weights, 0.0))
        if spec.renormalize or spec.activation == "softmax":
            weights = weights * inverse_of_total(total)[:, None]
        block.store(weights, "weights", 0)
        block.store(indices, "indices", 0)

    return row_kernel(spec, target, body)


def _share(score: Scalar, largest: Scalar) -> Scalar:
    share: Scalar = exp2((score - largest) * LOG2_E)
    return share


def _choose(block: RowBlock, scores: Tile) -> tuple[Tile, Tile]:
    """The scores and indices of the k best, in order, in the first k columns."""
    column = coordinates(scores, 1)
    places = each_element(lambda at: (at < block.n).select(at, NOBODY), column) if block.spec.pad_n else column
    none = full(scores.lengths, NOBODY, "i32", block.distribution)
    with loop(0, block.given.k, 1, carry=[scores, places, block.full(-inf), none]) as step:
        left, at, best, indices = step.carried
        score, index = reduce([left, at], 1, _better)
        taken, here = at.equals(index[:, None]), column.equals(step.index)
        step.carry(
            where(taken, -inf, left), where(taken, NOBODY, at), where(here, score[:, None], best),
            where(here, index[:, None], indices),
        )  # fmt: skip
    _, _, best, indices = step.results
    return best, indices


def _better(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """The larger of two (score, index); of equal scores the lower index."""
    first = (left[0] > right[0]) | (left[0].equals(right[0]) & (left[1] < right[1]))
    return [first.select(one, other) for one, other in zip(left, right, strict=True)]
