"""What is summed over K, and how: the accumulation of a contraction's loop.

Plain sums are what matrix instructions add up. Where groups along K have scales of their own, each step's products are
partial sums, which are scaled and added in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ckmlir.dialect.distribution import REGISTER, Distribution, Factor
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.mma import Mma
from ckmlir.lang import Scalar, Tile, mma, slice_tile, to_lds, zeros

STORED = 4
"""Elements of a row that a lane has at most of sums that are added through LDS."""


class Accumulation(Protocol):
    """The state that the loop carries, and what a step makes of it; `scales` are whatever `load` has found."""

    product: Mma
    waves: tuple[int, int]
    block: tuple[int, int, int]
    stretch: int
    """Elements along K for which `keep` puts something into LDS; 0: it puts nothing there."""

    def keep(self, k: Scalar) -> None:
        """Put what the steps from k on need beside A and B into LDS, before the first of them."""

    def start(self) -> list[Tile]:
        """What the loop begins with: a block of accumulators for every matrix B."""

    def load(self, k: Scalar) -> Sequence[Any]:
        """What the step at k needs beside A and B, from memory."""

    def read(self, loaded: Sequence[Any]) -> Sequence[Any]:
        """The same, in registers."""

    def add(self, sums: Sequence[Tile], rows: Tile, columns: Sequence[Tile], scales: Sequence[Any]) -> list[Tile]:
        """The sums with the products of a step."""

    def totals(self, sums: Sequence[Tile]) -> list[Tile]:
        """The block of accumulators of every matrix B, behind the loop."""


class Sums:
    """The matrix instructions' own sums."""

    def __init__(self, product: Mma, waves: tuple[int, int], block: tuple[int, int, int], count: int) -> None:
        """`count` matrices B."""
        self.product, self.waves, self.block, self.count = product, waves, block, count
        self.lies, self.stretch = product.c_over(waves, *block[:2]), 0

    def zeros(self, dtype: str) -> Tile:
        """A block of accumulators, of every part of K."""
        return zeros((self.product.parts * self.block[0], self.block[1]), dtype, self.lies)

    def keep(self, k: Scalar) -> None:
        """See `Accumulation`."""

    def start(self) -> list[Tile]:
        """See `Accumulation`."""
        return [self.zeros(self.product.acc_dtype) for _ in range(self.count)]

    def load(self, k: Scalar) -> Sequence[Any]:
        """See `Accumulation`."""
        return ()

    def read(self, loaded: Sequence[Any]) -> Sequence[Any]:
        """See `Accumulation`."""
        return loaded

    def add(self, sums: Sequence[Tile], rows: Tile, columns: Sequence[Tile], scales: Sequence[Any]) -> list[Tile]:
        """See `Accumulation`."""
        return [mma(self.product, rows, one, sum_) for one, sum_ in zip(columns, sums, strict=True)]

    def totals(self, sums: Sequence[Tile]) -> list[Tile]:
        """See `Accumulation`."""
        return list(sums) if self.product.parts == 1 else [self._added(one) for one in sums]

    def _added(self, sums: Tile) -> Tile:
        """The sums of all parts of K, which lie one below the other: a lane reads its elements of every part, and adds
        them in this order.
        """
        parts, (rows, columns, _), waves = self.product.parts, self.block, self.lies.waves
        lies = coalesced((rows, columns), waves, 1, STORED)
        every = Distribution((), ((Factor(parts, REGISTER, 0),), ())).embed(lies)
        held = to_lds(sums).read(every)
        total, *others = (slice_tile(held, 0, part * rows, rows) for part in range(parts))
        for one in others:
            total = total + one
        return total
