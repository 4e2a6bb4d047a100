"""Blocks of a matrix whose elements share a scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.contraction.scale_tiles import TILINGS, tiled_shape
from ckmlir.ops.contraction.scaling import POWERS
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import RequestError
from ckmlir.ops.scalars import ceil_div

BLOCKS = {"1x32": (1, 32), "1x64": (1, 64), "1x128": (1, 128), "128x128": (128, 128)}
"""Words -> rows and columns of a block."""


def scale_shape(m: int, n: int, block: str, major: str) -> tuple[int, int]:
    """The array of a matrix's scales: blocks down and across, with `major=rows` the other way round, or in tiles."""
    rows, columns = BLOCKS[block]
    down, across = ceil_div(m, rows), ceil_div(n, columns)
    if major in TILINGS:
        return tiled_shape(down, across, TILINGS[major])
    return (down, across) if major == "k" else (across, down)


SCALES_TEXT = "numbers, or powers of two; by default powers of two of packed elements, else numbers"


def with_scales(values: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """A request whose scales follow from the elements of q, unless it says what they are."""
    usual = "f32" if find_dtype(dtype).packing is None else POWERS
    return {**values, "scales": values["scales"] or usual}


def check_format(values: Mapping[str, Any], dtype: str, n: int, pitches: Mapping[str, int]) -> None:
    """Raise RequestError for scales in tiles that are none of mx formats; and for packed elements, of `dtype`, whose
    scales are not powers of two, or that do not fill the bytes of q's rows of n.
    """
    major = values["major"]
    if major in TILINGS and (values["scales"] != POWERS or values["block"] != "1x32"):
        raise RequestError(f"major={major}: powers of two of 1x32 lie in tiles; expected scales=e8m0 block=1x32")
    packing = find_dtype(dtype).packing
    if packing is None:
        return
    if values["scales"] != POWERS:
        raise RequestError(f"scales=f32: {dtype} has powers of two as scales; expected e8m0")
    for name, size in {"n": n, **pitches}.items():
        if n and size % packing.elements:
            raise RequestError(
                f"{name}={size}: rows of q are whole bytes, which {packing.elements} elements of {dtype} share; "
                f"expected a multiple of {packing.elements}"
            )
