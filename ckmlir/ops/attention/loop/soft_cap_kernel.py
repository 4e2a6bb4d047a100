"""Soft cap in the loop over keys: an exponential and a reciprocal a score, and what goes into the softmax's own
arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.lang import Scalar, Tile, exp2, reciprocal
from ckmlir.ops.attention.loop.loop_kernel import Score
from ckmlir.ops.attention.loop.units_kernel import Units
from ckmlir.ops.precision import LN_2, LOG2_E


@dataclass(frozen=True)
class Below(Score):
    """How far scores are below the cap, in parts of twice the cap; `factor` makes exponents to the base 2 of twice the
    scores in caps."""

    factor: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        below: Tile = reciprocal(-exp2(scores * self.factor) - 1.0)
        return below


@dataclass(frozen=True)
class Capped(Below):
    """Scores within ± cap; `bounds`: what weights may be taken from (`ops.attention.level`)."""

    cap: Scalar
    bounds: str

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        capped: Tile = super().apply(scores, key) * (self.cap * 2.0) + self.cap
        return capped

    def of_products(self, scale: Scalar) -> tuple[list[Score], Units]:
        """See `loop_kernel.Score`. The softmax scales what is below the cap, and does not feel what is added to all."""
        cap = self.cap * LOG2_E
        return [Below(self.factor * (scale * LN_2))], Units(cap * 2.0, cap, self.bounds)
