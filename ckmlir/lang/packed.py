"""Functions on elements of fewer bits than a byte, which tiles hold as bytes (i8)."""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.dialect import dequantize as dequantized
from ckmlir.dialect import packed, packing
from ckmlir.dialect import repack as turned
from ckmlir.dialect.packed_tiles import with_last
from ckmlir.dialect.packing import PACKED
from ckmlir.lang.arithmetic import dtype
from ckmlir.lang.shapes import permute_axes
from ckmlir.lang.trace import TracingError, located
from ckmlir.lang.values import Tile

WIDE = ("f32", "f16", "fp8")
"""What packed elements become."""


@located
def unpack(tile: Tile, name: str, element: str = "f32", *, axis: int = -1, exponent: int = 0) -> Tile:
    """The packed elements (fp4, fp6, bf6, i4, u4) in a tile of bytes as f32, f16 or fp8, of i4 also as i8 or bf8, of u4
    as i8, exactly; they follow each other along a dimension, by default the last, two of four bits a byte, four of six
    bits in three. They are multiplied by 2^exponent, which is 0 or what `light_exponent` returns.

    Raises:
        TracingError: no such format, a type that its elements do not become, another exponent, or a tile that does not
            hold whole ones.
    """
    _check("unpack", tile, name, "i8")
    able = (*WIDE, *("i8",) * PACKED[name].is_integer, *("bf8",) * packed.is_signed(PACKED[name]))
    if element not in able:
        raise TracingError(f"unpack: elements become {', '.join(able[:-1])} or {able[-1]}, not {element}")
    try:
        return _along(axis, lambda one: Tile(packed.unpack(one.value, name, dtype(element), exponent)), tile)
    except ValueError as problem:
        raise TracingError(f"unpack: {problem}") from None


def light_exponent(name: str, element: str) -> int:
    """The exponent of the power of two times which elements of a packed format become a type by the fewest
    instructions, on the target being traced: 4 and -9 or -10 for integers of 4 bits as i8 and as fp8, 0 for most.

    Raises:
        TracingError: no such format, or no such type.
    """
    _check_format("light_exponent", name)
    return packing.light_exponent(PACKED[name], str(dtype(element)))


@located
def dequantize(
    tile: Tile, name: str, element: str, *, zeros: Tile | None = None, scales: Tile | None = None, axis: int = -1
) -> Tile:
    """The packed integers (i4, u4) in a tile of bytes less their zero points, times their scales; or the fp4 in it
    times their scales. Zero points and scales are tiles with as many elements; one of both may be missing. Elements
    share bytes along a dimension, by default the last.

    With scales, in f32 and rounded once to f16, bf16 or f32; zero points have the scales' type, f16, bf16 or f32. In
    bf16 nothing is promised of what is beyond 2^100, and what is below 2^-126 may become 0, unless the scales are
    powers of two (e8m0), which those of fp4 may be. Without scales, i8 or fp8; zero points are i8, and numbers of the
    packed type themselves.

    Raises:
        TracingError: no such format, neither zero points nor scales, or types or lengths that do not fit.
    """
    _check("dequantize", tile, name, "i8")

    def dequantized_last(one: Tile) -> Tile:
        order = _with_last(axis, tile)
        beside = [None if other is None else _permuted(other, order).value for other in (zeros, scales)]
        found = dequantized.dequantize(one.value, name, dtype(element), *beside)
        dequantized.check(found.owner)
        return Tile(found)

    try:
        return _along(axis, dequantized_last, tile)
    except ValueError as problem:
        raise TracingError(f"dequantize: {problem}") from None


@located
def repack(tile: Tile, name: str, before: int, after: int) -> Tile:
    """The packed elements (fp4, fp6, bf6, i4, u4) in a tile of bytes, which they share along dimension `before`, as
    bytes that they share along dimension `after`: of 16 x 8 bytes of fp4 along the first dimension, 32 x 4.

    Raises:
        TracingError: no such format or dimensions, or a tile that does not hold whole blocks.
    """
    _check("repack", tile, name, "i8")
    rank = len(tile.lengths)
    if before == after or not all(0 <= one < rank for one in (before, after)):
        raise TracingError(f"repack takes two of the tile's {rank} dimensions, not {before} and {after}")
    try:
        return Tile(turned.repack(tile.value, name, before, after))
    except ValueError as problem:
        raise TracingError(f"repack: {problem}") from None


@located
def pack(tile: Tile, name: str) -> Tile:
    """A tile of f32 as bytes that hold packed elements (fp4, fp6, bf6, i4, u4), rounded to nearest even.

    What is too large becomes the largest number. The formats have no NaN: it becomes some number.

    Raises:
        TracingError: no such format, or elements that do not fill bytes.
    """
    _check("pack", tile, name, "f32")
    try:
        return Tile(packed.pack(tile.value, name))
    except ValueError as problem:
        raise TracingError(f"pack: {problem}") from None


def _along(axis: int, change: Callable[[Tile], Tile], tile: Tile) -> Tile:
    """A change of the last dimension, made to another: dimensions change their names, and nothing moves."""
    order = _with_last(axis, tile)
    return _permuted(change(_permuted(tile, order)), tuple(order.index(one) for one in range(len(order))))


def _with_last(axis: int, tile: Tile) -> tuple[int, ...]:
    rank = len(tile.lengths)
    if not -rank <= axis < rank:
        raise ValueError(f"axis={axis}: a tile of {rank} dimensions has {-rank} to {rank - 1}")
    return with_last(axis % rank, rank)


def _permuted(tile: Tile, order: tuple[int, ...]) -> Tile:
    return tile if order == tuple(range(len(order))) else permute_axes(tile, *order)


def _check_format(what: str, name: str) -> None:
    if name not in PACKED:
        raise TracingError(f"{what}: {name!r} is not a packed format; they are {', '.join(PACKED)}")


def _check(what: str, tile: Tile, name: str, wanted: str) -> None:
    _check_format(what, name)
    if str(tile.element) != wanted:
        raise TracingError(f"{what} takes a tile of {wanted}, not of {tile.element}")
    if not tile.lengths:
        raise TracingError(f"{what}: elements follow each other along the last dimension, and this tile has none")
