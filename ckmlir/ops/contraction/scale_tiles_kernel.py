"""Scales in tiles (`ckmlir.ops.contraction.scale_tiles`) as one matrix, in tile code."""

from __future__ import annotations

from math import prod

from ckmlir.lang import Pointer, Scalar, View, view
from ckmlir.ops.contraction.scale_tiles import Tiling


def tiled_view(pointer: Pointer, rows: Scalar, groups: Scalar, pitch: Scalar, tiling: Tiling) -> View:
    """Scales (rows, groups), both rounded up to tiles; `pitch` elements from one row of tiles to the next."""
    high, wide = prod(tiling.rows), prod(tiling.groups)
    down, across = (rows + (high - 1)) // high, (groups + (wide - 1)) // wide
    lengths = (*tiling.rows, *tiling.groups)
    seen = view(pointer, (down, across * tiling.size), (pitch, 1))
    seen = seen.unmerge(1, (across, *(lengths[one] for one in tiling.order)))
    digits, count = [2 + one for one in tiling.inverse], len(tiling.rows)
    seen = seen.permute(0, *digits[:count], 1, *digits[count:])
    return seen.merge(*range(1 + count)).merge(*range(1, 2 + len(tiling.groups)))
