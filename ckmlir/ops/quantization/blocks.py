"""Blocks of a matrix whose elements share a scale."""

from __future__ import annotations

from ckmlir.ops.contraction.scale_tiles import tiled_shape
from ckmlir.ops.contraction.scaling import TILED
from ckmlir.ops.operator import ceil_div

BLOCKS = {"1x32": (1, 32), "1x64": (1, 64), "1x128": (1, 128), "128x128": (128, 128)}
"""Words -> rows and columns of a block."""


def scale_shape(m: int, n: int, block: str, major: str) -> tuple[int, int]:
    """The array of a matrix's scales: blocks down and across, with `major=rows` the other way round, or in tiles."""
    rows, columns = BLOCKS[block]
    down, across = ceil_div(m, rows), ceil_div(n, columns)
    if major == TILED:
        return tiled_shape(down, across)
    return (down, across) if major == "k" else (across, down)
