"""SiLU weights in the loop over keys: sums without a state, and without a sum that they would be divided by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.lang import Scalar, Tile, exp2, maximum, reciprocal
from ckmlir.ops.attention.loop.loop_kernel import Form, Sums
from ckmlir.ops.attention.loop.weights_kernel import Around

LOWEST = -3e38


class Gated(Around):
    """Each score times what its exponential says; nothing of it changes with later keys."""

    @property
    def bounded(self) -> bool:
        """See `loop_kernel.Weights`: weights grow with scores."""
        return False

    def start(self, form: Form) -> list[Tile]:
        """See `loop_kernel.Weights`."""
        return []

    def top(self, scores: Tile, state: Sequence[Tile]) -> None:
        """See `loop_kernel.Weights`."""
        return None

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Any, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        exponents = self.units.exponent(scores)
        # Minus infinity times the zero that its gate is would be NaN.
        return maximum(exponents, LOWEST) * reciprocal(exp2(-exponents) + 1.0), []

    def rescale(self, total: Tile, top: Any) -> Tile:
        """See `loop_kernel.Weights`."""
        return total

    def normalised(self, sums: Sums, factors: Sequence[Scalar]) -> Tile:
        """See `loop_kernel.Weights`."""
        found = sums.o
        for one in factors:
            found = found * one
        return found
