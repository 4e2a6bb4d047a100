"""B beforehand in the order in which matrix instructions take it, so that lanes load whole fragments from memory.

A tile is `columns` columns of C (16 or 32, those of the matrix instruction) by as many elements along K as 64 lanes
hold with 16 bytes each. Lane l holds column l % columns, and along K the 16 bytes number l / columns: so a tile in
lane order is 1 KiB that a wave reads in one access. Tiles follow each other along K, then along N. An incomplete tile
is filled up with zeros: the array has ceil(n / columns) rows of columns * (k rounded up to a tile's depth) elements.
Elements of 4 bits are bytes here, of which a tile has as many as of others: 32 elements of a lane follow each other.

Source of the order: CK Tile, host_tensor shuffle of weights (example/ck_tile/18_flatmm), for warp tiles whose lanes
hold 16 bytes; of 4-bit weights too, aiter's shuffle_weight with use_int4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.scalars import ceil_div
from ckmlir.targets.cdna import WAVE_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

VECTOR_BYTES = 16
COLUMNS = (16, 32)
"""What a tile may have: columns of the matrix instructions that tiles are multiplied with."""


def vector_length(element_bytes: int) -> int:
    """Elements that a lane holds of a tile."""
    return VECTOR_BYTES // element_bytes


def tile_depth(columns: int, element_bytes: int) -> int:
    """Elements of a tile along K."""
    return WAVE_SIZE // columns * vector_length(element_bytes)


def shuffled_shape(n: int, k: int, columns: int, element_bytes: int) -> tuple[int, int]:
    """The shape of the array that holds B (n, k) shuffled: a row for every `columns` columns."""
    tiles_n, tiles_k, _, depth = _tiles(n, k, columns, element_bytes)
    return tiles_n, columns * tiles_k * depth


def shuffle_b(b: npt.NDArray[Any], columns: int = 32) -> npt.NDArray[Any]:
    """B (n, k), any dtype of 1, 2, 4, 8 or 16 bytes, in fragment order; a new array of `shuffled_shape`.

    Transpose a B that is (k, n). `columns` is the second number of the matrix instruction's shape.

    Raises:
        ValueError: not two dimensions, `columns` other than 16 or 32, or elements whose size does not divide 16 bytes.
    """
    if b.ndim != 2:
        raise ValueError(f"B has {b.ndim} dimensions; expected 2, (n, k)")
    return arrange(b, columns, b.dtype.itemsize)


def arrange(b: npt.NDArray[Any], columns: int, element_bytes: int) -> npt.NDArray[Any]:
    """`shuffle_b` for values (…, n, k) that still are to be converted to elements of `element_bytes`.

    Raises ValueError for columns and sizes of elements alike.
    """
    *batch, n, k = b.shape
    tiles_n, tiles_k, vector, depth = _tiles(n, k, columns, element_bytes)
    padded = np.zeros((*batch, tiles_n * columns, tiles_k * depth), b.dtype)
    padded[..., :n, :k] = b
    tiles = padded.reshape(*batch, tiles_n, columns, tiles_k, depth // vector, vector)
    return np.ascontiguousarray(np.moveaxis(tiles, -4, -2)).reshape(*batch, tiles_n, tiles_k * depth * columns)


def unshuffle_b(shuffled: npt.NDArray[Any], n: int, k: int, columns: int = 32) -> npt.NDArray[Any]:
    """The inverse of `shuffle_b`: B (n, k), a new array.

    Raises:
        ValueError: as `shuffle_b`, or a shape that is not that of B (n, k) shuffled.
    """
    tiles_n, tiles_k, vector, depth = _tiles(n, k, columns, shuffled.dtype.itemsize)
    if shuffled.shape != (tiles_n, tiles_k * depth * columns):
        expected = f"{tiles_n}x{tiles_k * depth * columns}"
        raise ValueError(f"B ({n}, {k}) shuffled is {expected}, not {'x'.join(map(str, shuffled.shape))}")
    tiles = shuffled.reshape(tiles_n, tiles_k, depth // vector, columns, vector).transpose(0, 3, 1, 2, 4)
    return np.ascontiguousarray(tiles.reshape(tiles_n * columns, tiles_k * depth)[:n, :k])


def _tiles(n: int, k: int, columns: int, element_bytes: int) -> tuple[int, int, int, int]:
    """Tiles along N and along K, elements that a lane holds of a tile, its depth."""
    if columns not in COLUMNS:
        raise ValueError(f"tiles of {columns} columns; expected 16 or 32, those of a matrix instruction")
    if element_bytes < 1 or VECTOR_BYTES % element_bytes:
        raise ValueError(f"elements of {element_bytes} bytes do not divide the {VECTOR_BYTES} bytes of a lane")
    depth = tile_depth(columns, element_bytes)
    return ceil_div(n, columns), ceil_div(k, depth), vector_length(element_bytes), depth
