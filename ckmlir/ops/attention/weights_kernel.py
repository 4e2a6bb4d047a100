"""Weights of attention: the softmax, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ckmlir.lang import Scalar, Tile, exp2, full, maximum, reduce_max, reduce_sum, where, zeros
from ckmlir.ops.attention.loop_kernel import Form

INFINITY = float("inf")


@dataclass(frozen=True)
class Top:
    """The largest score of every query so far, its exponent, and what earlier weights are multiplied with."""

    largest: Tile
    shift: Tile
    decay: Tile


@dataclass(frozen=True)
class Softmax:
    """Exponentials of scores less the largest so far; the state is that and the sum of the weights.

    Attributes:
        exponent: what scores and their maxima are as exponents to the base 2.
        boost: weights are multiplied by two to this power, and so are their sums.
    """

    exponent: Callable[[Tile], Tile]
    boost: int = 0

    def start(self, form: Form) -> list[Tile]:
        """See `loop_kernel.Weights`."""
        shape = (form.queries,)
        return [full(shape, -INFINITY, "f32", form.row_layout), zeros(shape, "f32", form.row_layout)]

    def top(self, scores: Tile, state: Sequence[Tile]) -> Top:
        """See `loop_kernel.Weights`."""
        before, _ = state
        largest = maximum(before, reduce_max(scores, 1))
        shift = self.exponent(_finite(largest))
        return Top(largest, shift, exp2(self.exponent(before) - shift))

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Top, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        _, total = state
        shift = top.shift - float(self.boost) if self.boost else top.shift
        weights = exp2(self.exponent(scores) - shift[:, None])
        return weights, [top.largest, total * top.decay + reduce_sum(weights, 1)]

    def rescale(self, total: Tile, top: Top) -> Tile:
        """See `loop_kernel.Weights`."""
        rescaled: Tile = total * top.decay[:, None]
        return rescaled


def _finite(largest: Tile) -> Tile:
    """The row's maximum, 0 where the row has nothing yet: minus infinity less itself would be NaN."""
    return where(largest > -INFINITY, largest, 0.0)
