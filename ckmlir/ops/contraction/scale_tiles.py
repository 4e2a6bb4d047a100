"""Scales of groups of 32 in tiles of 16 rows and 4 groups, so that lanes of a matrix instruction load neighbours.

Row i of a tile is a dword: its scales of four groups that follow each other along K, the first in the lowest byte.
Tiles follow each other along K, then along the rows: the array has ceil(rows / 16) rows of 64 * ceil(groups / 4) bytes.
What fills the last tiles up is 0, 2^-127.

Source of the order: CK Tile, example/ck_tile/42_mx_gemm, whose scales are packed by four along K and shuffled to
(rows / 16, K / 128, 16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.operator import ceil_div

if TYPE_CHECKING:
    import numpy.typing as npt

ROWS, GROUPS = 16, 4
"""Of a tile."""


def tiled_shape(rows: int, groups: int) -> tuple[int, int]:
    """Of the array that holds scales (rows, groups) in tiles."""
    return ceil_div(rows, ROWS), ceil_div(groups, GROUPS) * GROUPS * ROWS


def tile_scales(scales: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scales (rows, groups) of one byte each in tiles, a new array of `tiled_shape`.

    Raises:
        ValueError: not two dimensions, or scales that are not of one byte.
    """
    if scales.ndim != 2 or scales.dtype.itemsize != 1:
        what = f"{scales.ndim} dimensions of {scales.dtype.itemsize} bytes"
        raise ValueError(f"scales have {what}; expected 2, (rows, groups), of 1 byte")
    down, across = ceil_div(scales.shape[0], ROWS), ceil_div(scales.shape[1], GROUPS)
    padded = np.zeros((down * ROWS, across * GROUPS), np.uint8)
    padded[: scales.shape[0], : scales.shape[1]] = scales.view(np.uint8)
    tiles = padded.reshape(down, ROWS, across, GROUPS).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(tiles).reshape(down, across * GROUPS * ROWS).view(scales.dtype)


def untile_scales(tiled: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The inverse of `tile_scales`, with what fills the last tiles up: (rows, groups) rounded up; a new array.

    Raises:
        ValueError: rows that are not whole tiles.
    """
    if tiled.ndim != 2 or tiled.shape[1] % (ROWS * GROUPS):
        raise ValueError(f"an array of shape {tiled.shape} has no tiles of {ROWS} x {GROUPS}")
    down, across = tiled.shape[0], tiled.shape[1] // (ROWS * GROUPS)
    tiles = tiled.reshape(down, across, ROWS, GROUPS).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(tiles).reshape(down * ROWS, across * GROUPS)
