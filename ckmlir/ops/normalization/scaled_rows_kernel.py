"""Rows scaled by a power of two, so that their squares neither overflow nor vanish, in tile code.

A factor for every row brings its largest magnitude, or the square root of eps where that is more, to [2, 4): products
with it are exact, sums of squares stay between 1 / n and 16 n, and eps times its square is representable. Rows of f16
need none: their squares are below 2^36. An infinity makes the factor 0, and so NaN of itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ckmlir.lang import Scalar, Tile, absolute, bitcast, each_element, rsqrt, sqrt, where
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock

EXPONENT = 0x7F800000
"""The exponent of an f32."""
INVERTED = EXPONENT - (1 << 23)
"""The sum of the bits of a power of two and its inverse."""
LEAST = 2.0**-125
"""The smallest magnitude that is brought to [2, 4); its factor is 2^126."""


class MeanSquare(NamedTuple):
    """A mean of squares for every row: a sum, and what makes the mean of it (None: it is the mean already)."""

    total: Tile
    share: Scalar | None = None

    @property
    def tile(self) -> Tile:
        """The mean itself; where more is computed of it, that is one operation with the product."""
        found: Tile = self.total if self.share is None else self.total * self.share
        return found

    def of(self, total: Scalar) -> Scalar:
        """The mean of one row, from its sum."""
        found: Scalar = total if self.share is None else total * self.share
        return found


class ScaledRows:
    """The rows of one workgroup, scaled, and the way back.

    Attributes:
        part: the scaled rows, zero behind their end.
    """

    def __init__(self, block: RowBlock, x: Part) -> None:
        """The rows `x` of a kernel that takes eps; what lies behind their end must be zero."""
        self.part, self._eps = x, block.given.eps
        self._factor: Tile | None = None
        if block.spec.dtype == "f16":
            return
        largest = block.fold(lambda column: [absolute(x(column))], [0.0], lambda a, b: [a[0].maximum(b[0])])[0]
        least: Scalar = sqrt(block.given.eps).maximum(LEAST)
        factor = each_element(
            lambda found: bitcast(EXPONENT - (bitcast(found.maximum(least), "i32") & EXPONENT), "f32"), largest
        )
        self._factor = factor
        # Not zero unless eps is: a row of equal large elements has no variance, and still is not a reason for NaN.
        self._least_eps: Scalar = block.given.eps.minimum(LEAST_NORMAL_F32)

        def scaled(column: Column) -> Tile:
            product: Tile = x(column) * factor[:, None]
            return product

        self.part = block.held(scaled)

    def inverse_root(self, squares: MeanSquare) -> Tile:
        """1 / sqrt(squares + eps) of a scaled mean of squares, eps in its units; NaN where that is infinite."""
        if self._factor is None:
            return each_element(lambda total: _inverse_root(squares.of(total), self._eps), squares.total)

        def scaled(total: Scalar, factor: Scalar) -> Scalar:
            return _inverse_root(squares.of(total), (self._eps * factor * factor).maximum(self._least_eps))

        return each_element(scaled, squares.total, self._factor)

    def restored_inverse_root(self, squares: MeanSquare, inverse: Tile) -> Tile:
        """The `inverse_root` of such a mean in the units of 1 / x."""
        if self._factor is None:
            return inverse
        return where(squares.tile.equals(0.0), rsqrt(self._eps), inverse * self._factor)

    def restored(self, values: Tile) -> Tile:
        """Values of rows, such as means, in the units of x."""
        if self._factor is None:
            return values
        return each_element(
            lambda one, factor: one * bitcast(INVERTED - bitcast(factor, "i32"), "f32"), values, self._factor
        )


def _inverse_root(square: Scalar, eps: Scalar) -> Scalar:
    inverse: Scalar = rsqrt(square + eps) + not_a_number_unless_finite(square)
    return inverse


def not_a_number_unless_finite(value: Any) -> Any:
    """0, or NaN where a value is NaN or infinite."""
    return value * 0.0
