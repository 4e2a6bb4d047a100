"""What scores of attention are in the loop over keys, beside exponents."""

from __future__ import annotations

from msgspec import Struct

from ckmlir.lang import Scalar, Tile, maximum, reduce_max, reduce_sum


class Units(Struct, frozen=True):
    """Scores times `scale` are exponents to the base 2, or so are they with `more` added to all: a softmax does not
    feel that. `bounds`: what weights may be taken from (`ops.attention.level.taken_from`); where they may, exponents
    without what is added to all come to 0 at most.
    """

    scale: Scalar | float
    more: Scalar | None = None
    bounds: str = ""

    def exponent(self, largest: Tile) -> Tile:
        """Largest scores, as the state has them, as exponents to the base 2, without what is added to all."""
        exponents: Tile = largest * self.scale
        return exponents

    def whole(self, exponent: Tile) -> Tile:
        """Such exponents with what is added to all."""
        return exponent if self.more is None else exponent + self.more

    def score(self, exponent: Tile) -> Tile:
        """Exponents to the base 2 as the state would have them."""
        score: Tile = self.rest(exponent) / self.scale
        return score

    def rest(self, exponent: Tile) -> Tile:
        """Exponents to the base 2 without what is added to all."""
        return exponent if self.more is None else exponent - self.more

    def larger(self, before: Tile, scores: Tile) -> Tile:
        """The largest scores of all keys so far, from those before a block and the block's."""
        largest: Tile = maximum(before, reduce_max(scores, 1))
        return largest

    def above(self, scores: Tile, shift: Tile) -> Tile:
        """How far scores are above exponents, one a query."""
        above: Tile = scores * self.scale - shift[:, None]
        return above

    def summed(self, weights: Tile) -> Tile:
        """What the weights of a block of keys add to their sum."""
        total: Tile = reduce_sum(weights, 1)
        return total
