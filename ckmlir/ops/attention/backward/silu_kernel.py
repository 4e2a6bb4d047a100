"""SiLU weights in attention backward, which have a derivative of their own and no rows.

With x = scale·S an exponent to the base 2 and g = 1 / (1 + exp2(-x)), silu(S) is ln 2 times x·g, and its derivative
g + silu(S)·(1 - g). Both are taken divided by ln 2, which is in the factor that dV, dK and dQ are multiplied with. What
is hidden has the lowest finite exponent: its gate is zero, and so are weight and derivative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ckmlir.lang import Scalar, Tile, exp2, maximum, reciprocal, zeros
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.loop_kernel import ExponentPart, Form, Kept, MaskPart, Weights
from ckmlir.ops.attention.loop.silu_kernel import LOWEST
from ckmlir.ops.attention.loop.work_kernel import Work
from ckmlir.ops.precision import LOG2_E


class Gated(Weights):
    """Weights x·g; dS is the derivative times dP."""

    def begin(self) -> Tile:
        """See `loop_kernel.Weights`."""
        return zeros((self.form.keys, self.form.queries), "f32", self.form.score_layout)

    def weigh(self, scores: Tile, masks: Iterable[MaskPart], query: Amount) -> tuple[Tile, Tile]:
        """See `loop_kernel.Weights`. Only parts make scores of minus infinity."""
        exponents = self.exponents(scores, query)
        if self.parts:
            exponents = maximum(exponents, LOWEST)
        for one in masks:
            exponents = one.apply(exponents, query, LOWEST)
        exponents = self.kept.hide(exponents, LOWEST)
        gate = reciprocal(exp2(-exponents) + 1.0)
        weights = exponents * gate
        return gate * LOG2_E + (weights - weights * gate), weights

    def ds(self, held: Tile, dp: Tile) -> Tile:
        """See `loop_kernel.Weights`."""
        product: Tile = held * dp
        return product


def gated(given: Any, work: Work, form: Form, scale: Scalar, parts: Sequence[ExponentPart], kept: Kept) -> Weights:
    """The weights of a head's queries; `given` has the kernel's arguments."""
    return Gated(form, scale, parts, kept)
