"""Scales of groups of 32 in tiles, so that lanes of a matrix instruction load neighbours.

A tile is of so many rows, and of so many groups that follow each other along K. Tiles follow each other along K, then
along the rows: the array has a row for each row of tiles. What fills the last tiles up is 0, 2^-127.

- `tiles`: 16 rows and 4 groups. Row i of a tile is a dword: its scales of the four groups, the first in the lowest
  byte.
- `tiles2x2`: 32 rows and 8 groups. Row i of the first 16, and group j of the first four, share a dword with the row 16
  further and the group 4 further: rows are neighbours, then groups; dwords follow each other along the rows.

Sources of the orders: CK Tile, example/ck_tile/42_mx_gemm, whose scales are packed by four along K and shuffled to
(rows / 16, K / 128, 16); AMD's aiter, `e8m0_shuffle`, and CK Tile's flat product, `preShuffleScale` of
example/ck_tile/18_flatmm/mxgemm, whose arrays have rows up to a multiple of 256 and of 32: as rows of tiles, more than
those of the matrix do no harm.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ckmlir.ops.scalars import ceil_div

if TYPE_CHECKING:
    import numpy.typing as npt


class Tiling(NamedTuple):
    """How scales lie in a tile.

    Attributes:
        rows, groups: lengths of the digits of a row's, and of a group's, number, the most significant first.
        order: these digits, those of rows first, as memory has them, the slowest first.
    """

    rows: tuple[int, ...]
    groups: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def size(self) -> int:
        """Scales of a tile."""
        return prod(self.rows) * prod(self.groups)

    def whole_groups(self, groups: int) -> int:
        """Groups with those that fill the last tile up."""
        return ceil_div(groups, prod(self.groups)) * prod(self.groups)

    @property
    def together(self) -> int:
        """Groups of a row that are neighbours in memory."""
        fastest = self.order[-1] - len(self.rows)
        return self.groups[fastest] if fastest >= 0 else 1

    @property
    def inverse(self) -> tuple[int, ...]:
        """Of the order."""
        return tuple(map(self.order.index, range(len(self.order))))


TILINGS = {
    "tiles": Tiling((16,), (4,), (0, 1)),
    "tiles2x2": Tiling((2, 16), (2, 4), (3, 1, 2, 0)),
}
"""By their names in requests."""


def tiled_shape(rows: int, groups: int, tiling: Tiling) -> tuple[int, int]:
    """Of the array that holds scales (rows, groups) in tiles."""
    return ceil_div(rows, prod(tiling.rows)), tiling.whole_groups(groups) * prod(tiling.rows)


def tile_scales(scales: npt.NDArray[Any], order: str = "tiles") -> npt.NDArray[Any]:
    """Scales (rows, groups) of one byte each in tiles, a new array of `tiled_shape`; `order`: of `TILINGS`.

    Raises:
        ValueError: not two dimensions, or scales that are not of one byte, or no such order.
    """
    tiling = _tiling(order)
    if scales.ndim != 2 or scales.dtype.itemsize != 1:
        what = f"{scales.ndim} dimensions of {scales.dtype.itemsize} bytes"
        raise ValueError(f"scales have {what}; expected 2, (rows, groups), of 1 byte")
    shape = tiled_shape(scales.shape[0], scales.shape[1], tiling)
    down, across = shape[0], shape[1] // tiling.size
    padded = np.zeros((down * prod(tiling.rows), across * prod(tiling.groups)), np.uint8)
    padded[: scales.shape[0], : scales.shape[1]] = scales.view(np.uint8)
    first = len(tiling.rows) + 1
    apart = padded.reshape(down, *tiling.rows, across, *tiling.groups)
    digits = [1 + one if one < len(tiling.rows) else 2 + one for one in tiling.order]
    return np.ascontiguousarray(apart.transpose(0, first, *digits)).reshape(shape).view(scales.dtype)


def untile_scales(tiled: npt.NDArray[Any], order: str = "tiles") -> npt.NDArray[Any]:
    """The inverse of `tile_scales`, with what fills the last tiles up: (rows, groups) rounded up; a new array.

    Raises:
        ValueError: rows that are not whole tiles, or no such order.
    """
    tiling = _tiling(order)
    if tiled.ndim != 2 or tiled.shape[1] % tiling.size:
        sides = f"{prod(tiling.rows)} x {prod(tiling.groups)}"
        raise ValueError(f"an array of shape {tiled.shape} has no tiles of {sides}")
    down, across = tiled.shape[0], tiled.shape[1] // tiling.size
    lengths = (*tiling.rows, *tiling.groups)
    tiles = tiled.reshape(down, across, *(lengths[one] for one in tiling.order))
    digits = [2 + one for one in tiling.inverse]
    rows, groups = digits[: len(tiling.rows)], digits[len(tiling.rows) :]
    apart = np.ascontiguousarray(tiles.transpose(0, *rows, 1, *groups))
    return apart.reshape(down * prod(tiling.rows), across * prod(tiling.groups))


def _tiling(order: str) -> Tiling:
    if order not in TILINGS:
        raise ValueError(f"order={order!r}: scales lie in no such tiles; expected {' or '.join(TILINGS)}")
    return TILINGS[order]
