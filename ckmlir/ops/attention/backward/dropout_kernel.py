"""Dropout in attention backward: the forward kernel's random bytes, drawn again.

A lane of the loop has one key and several queries, a draw has one query and several keys: bytes change places in LDS.
A dropped weight is marked by its sign, so that no condition is kept beside it from dV to dS: with Z one where a weight
is kept and zero elsewhere, and delta multiplied by 1 - p, dS = P ∘ (Z ∘ dO·Vᵀ + delta). dV, dK and dQ are multiplied by
1 / (1 - p) where they leave.
"""

from __future__ import annotations

from typing import Any

from ckmlir.lang import Scalar, Tile, absolute, cast, maximum, permute_axes, to_lds, where
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.fmha_bwd_spec import shared_draws
from ckmlir.ops.attention.backward.loop_kernel import Form, Kept
from ckmlir.ops.attention.loop.dropout_kernel import BYTES, WORDS, Draw, Drawers, as_i8, seed_and_counter
from ckmlir.ops.attention.loop.work_kernel import Work


class Dropped(Kept):
    """Weights whose random byte is above a threshold do not count.

    Attributes:
        first: the block's first key.
    """

    def __init__(self, form: Form, draw: Draw, first: Scalar, threshold: Scalar) -> None:
        self.form, self.drawing, self.first, self.threshold = form, draw, first, threshold

    def at(self, first: Scalar) -> Dropped:
        """See `loop_kernel.Kept`."""
        return Dropped(self.form, self.drawing, first, self.threshold)

    def draw(self, query: Amount) -> None:
        """See `loop_kernel.Kept`."""
        self.in_lds = to_lds(as_i8(self.drawing.bytes(query, self.first)), "random")

    def read(self) -> None:
        """See `loop_kernel.Kept`."""
        self.drawn = permute_axes(self.in_lds.read(self.form.score_layout.permute((1, 0))), 1, 0)

    def hide(self, exponents: Tile, other: float) -> Tile:
        """See `loop_kernel.Kept`."""
        return where(self.is_kept, exponents, other)

    def mark(self, weights: Tile) -> Tile:
        """See `loop_kernel.Kept`."""
        return where(self.is_kept, weights, -weights)

    @property
    def is_kept(self) -> Tile:
        """Which weights count."""
        found: Tile = (cast(self.drawn, "i32") & 0xFF) <= self.threshold
        return found

    def counted(self, marked: Tile) -> Tile:
        """See `loop_kernel.Kept`."""
        counted: Tile = maximum(marked, 0.0)
        return counted

    def ds(self, marked: Tile, dp: Tile, delta: Tile) -> Tile:
        """See `loop_kernel.Kept`. Where a weight is zero either will do."""
        product: Tile = absolute(marked) * where(marked < 0.0, delta, dp)
        return product


def dropped(word: str, given: Any, work: Work, form: Form) -> Dropped:
    """See `parts/dropout.py` for the word and the arguments."""
    deal = shared_draws(form.queries, form.keys, form.waves[0])
    drawers = Drawers(
        f"{form.queries}@lane.2",
        " ".join([f"{deal.lanes}@lane.1", f"{deal.waves}@wave.0", f"{deal.blocks}@y0"]),
        " ".join([f"{deal.word_waves}@wave.1", f"{WORDS // deal.word_waves}@y1"]),
        f"{BYTES}@y2",
    )
    return Dropped(form, Draw(drawers, *seed_and_counter(word, given, work)), work.first, given.drop_threshold)
