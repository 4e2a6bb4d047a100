"""Scales in tiles (`ckmlir.ops.contraction.scale_tiles`) as one matrix, in tile code."""

from __future__ import annotations

from ckmlir.lang import Pointer, Scalar, View, view
from ckmlir.ops.contraction.scale_tiles import GROUPS, ROWS


def tiled_view(pointer: Pointer, rows: Scalar, groups: Scalar, pitch: Scalar) -> View:
    """Scales (rows, groups), both rounded up to tiles; `pitch` elements from one row of tiles to the next."""
    down, across = (rows + (ROWS - 1)) // ROWS, (groups + (GROUPS - 1)) // GROUPS
    seen = view(pointer, (down, across * (ROWS * GROUPS)), (pitch, 1)).unmerge(1, (across, ROWS, GROUPS))
    return seen.permute(0, 2, 1, 3).merge(0, 1).merge(1, 2)
