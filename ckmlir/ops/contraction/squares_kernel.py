"""Sums of matrix instructions, and beside them those of the squares of A's rows: A is read once for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.lang import Scalar, Tile, cast, coordinates, redistribute, reduce_sum, slice_tile, where, zeros
from ckmlir.ops.contraction.accumulation_kernel import Sums


class SumsWithSquares(Sums):
    """Sums whose block has those of the squares of A's rows in one of its columns.

    A lane squares the elements of A that it hands to the matrix instruction. What it adds has the lengths of one
    operand (rows, K of an instruction's vectors), so that a few registers hold it; lanes are added behind the loop.
    Waves side by side along n do the same twice, which costs less than a way through LDS.
    """

    def __init__(self, product: Mma, waves: tuple[int, int], block: tuple[int, int, int], column: Scalar) -> None:
        """`column` of the block, which may have none of that number, has the squares."""
        super().__init__(product, waves, block, 1)
        self.column = column
        self.depth = product.k

    def start(self) -> list[Tile]:
        """See `Accumulation`."""
        rows = self.block[0]
        lies = self.product.a_over(self.waves, rows, self.depth)
        return [*super().start(), zeros((rows, self.depth), "f32", lies)]

    def add(self, sums: Sequence[Tile], rows: Tile, columns: Sequence[Tile], scales: Sequence[Any]) -> list[Tile]:
        """See `Accumulation`."""
        *products, squares = sums
        for first in range(0, self.block[2], self.depth):
            part = cast(rows if self.depth == self.block[2] else slice_tile(rows, 1, first, self.depth), "f32")
            squares = squares + part * part
        return [*super().add(products, rows, columns, scales), squares]

    def totals(self, sums: Sequence[Tile]) -> list[Tile]:
        """See `Accumulation`."""
        total, squares = sums
        of_rows = redistribute(reduce_sum(squares, 1), self.lies.reduce(1))
        return [where(coordinates(total, 1).equals(self.column), of_rows[:, None], total)]
