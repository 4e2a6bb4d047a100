"""Rows scaled by a power of two, so that their squares neither overflow nor vanish, in tile code.

A factor for every row brings its largest magnitude, or the square root of eps where that is more, to [2, 4): products
with it are exact, sums of squares stay between 1 / n and 16 n, and eps times its square is representable. Rows of f16
need none: their squares are below 2^36. An infinity makes the factor 0, and so NaN of itself.

Rows that stream would pass once more for the largest magnitude. Where nothing but the mean of squares is wanted, its
sum is f64, which holds all squares of f32, and the factor follows from it (`scaled_by_mean_square`): it brings the root
of the mean square to [2, 4).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ckmlir.lang import Scalar, Tile, absolute, bitcast, cast, each_element, rsqrt, sqrt, where
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock

EXPONENT = 0x7F800000
"""The exponent of an f32."""
INVERTED = EXPONENT - (1 << 23)
"""The sum of the bits of a power of two and its inverse."""
LEAST = 2.0**-125
"""The smallest magnitude that is brought to [2, 4); its factor is 2^126."""
ONE_F64, ONE_F32, MOST = 1023, 127, 253
"""The exponent of 1, as f64 and as f32 have it, and of the largest factor."""


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

    def __init__(self, block: RowBlock, x: Part, factor: Tile | None = None) -> None:
        """The rows `x` of a kernel that takes eps; what lies behind their end must be zero.

        Args:
            factor: of every row; by default what its largest magnitude asks for.
        """
        self.part, self._eps = x, block.given.eps
        self._factor: Tile | None = None
        if not may_overflow(block):
            return
        factor = _factor_of_largest(block, x) if factor is None else factor
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


def may_overflow(block: RowBlock) -> bool:
    """Whether f32 does not hold the squares of all that rows may have."""
    return block.spec.dtype != "f16"


def _factor_of_largest(block: RowBlock, x: Part) -> Tile:
    largest = block.fold(lambda column: [absolute(x(column))], [0.0], lambda a, b: [a[0].maximum(b[0])])[0]
    least: Scalar = sqrt(block.given.eps).maximum(LEAST)
    return each_element(
        lambda found: bitcast(EXPONENT - (bitcast(found.maximum(least), "i32") & EXPONENT), "f32"), largest
    )


def scaled_by_mean_square(block: RowBlock, x: Part) -> tuple[ScaledRows, MeanSquare]:
    """The rows `x`, scaled so that the root of their mean square and eps is in [2, 4), and that mean square scaled
    likewise. They pass once for both.
    """

    def square(column: Column) -> Tile:
        part = cast(x(column), "f64")
        squared: Tile = part * part
        return squared

    share, eps = block.inverse_n.to("f64"), block.given.eps.to("f64")

    def scaled(total: Scalar, factor: Scalar) -> Scalar:
        wide = factor.to("f64")
        mean: Scalar = (total * share * wide * wide).to("f32")
        return mean

    total = block.sum(square, "f64")
    factor = each_element(lambda one: factor_of_mean_square(one * share + eps), total)
    return ScaledRows(block, x, factor), MeanSquare(each_element(scaled, total, factor))


def factor_of_mean_square(square: Scalar) -> Scalar:
    """The power of two, f32, that brings the root of a number, f64, to [2, 4); 0 of an infinity."""
    exponent = (bitcast(square, "i64") >> 52).to("i32") - ONE_F64
    inverse = (ONE_F32 + 1 - (exponent >> 1)).minimum(MOST).maximum(0)
    factor: Scalar = bitcast(inverse << 23, "f32")
    return factor


def _inverse_root(square: Scalar, eps: Scalar) -> Scalar:
    inverse: Scalar = rsqrt(square + eps) + not_a_number_unless_finite(square)
    return inverse


def not_a_number_unless_finite(value: Any) -> Any:
    """0, or NaN where a value is NaN or infinite."""
    return value * 0.0
