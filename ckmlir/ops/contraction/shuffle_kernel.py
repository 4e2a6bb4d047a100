"""Matrices in fragment order (`ckmlir.ops.contraction.shuffle`), in tile code."""

from __future__ import annotations

from ckmlir.lang import Pointer, Scalar, View, view
from ckmlir.ops.contraction.shuffle import tile_depth, vector_length


def shuffled_view(b: Pointer, n: Scalar, k: Scalar, pitch: Scalar, columns: int, size: int) -> View:
    """A matrix (n, k) of elements of so many bytes that lies in tiles (`ckmlir.ops.contraction.shuffle`), with the
    zeros that fill the last ones up; `pitch` elements from one row of tiles to the next.
    """
    vector, depth = vector_length(size), tile_depth(columns, size)
    tiles_n, tiles_k = _tiles(n, columns), _tiles(k, depth)
    rows = view(b, (tiles_n, tiles_k * (depth * columns)), (pitch, 1))
    tiles = rows.unmerge(1, (tiles_k, depth // vector, columns, vector)).permute(0, 3, 1, 2, 4)
    return tiles.merge(0, 1).merge(1, 2, 3)


def _tiles(length: Scalar, tile: int) -> Scalar:
    """How many tiles hold a length, with what is known to divide their number."""
    tiles: Scalar = (length + (tile - 1)) // tile
    return tiles.multiple_of(max(length.multiple // tile, 1))
