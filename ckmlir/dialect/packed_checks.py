"""What operations say of packed elements, and what must be so: their format, and along which dimensions of a tile they
share bytes (`packing.py`).
"""

from typing import Any

from ckmlir.dialect.build import integer_of, text_of
from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.dialect.types import LdsType, TileType
from ckmlir.dialect.verify import expect
from ckmlir.mlir import ir


def packing_of(op: Any) -> Packing:
    """The format that an operation names; ValueError in words where there is none."""
    name = text_of(op, "format")
    if name not in PACKED:
        raise ValueError(f"'{name}' is not a packed format; they are {', '.join(PACKED)}")
    return PACKED[name]


def check_turned(op: ir.OpView, source: TileType | LdsType, result: TileType) -> None:
    """Check that an operation gives the bytes of what it takes, whose elements share bytes along another dimension."""
    packing, (before, after) = packing_of(op), dimensions_of(op)
    expect(
        (str(source.element), str(result.element)) == ("i8", "i8"),
        f"takes and gives bytes (i8), not {source.element} and {result.element}",
    )
    rank = len(source.lengths)
    expect(
        before != after and 0 <= before < rank and 0 <= after < rank,
        f"takes two dimensions of a tile that has {rank}, not {before} and {after}",
    )
    wanted = lengths_after(source.lengths, packing, before, after)
    expect(
        result.lengths == wanted,
        f"elements of {list(source.lengths)} bytes along d{before} take {list(wanted)} along d{after}, "
        f"not {list(result.lengths)}",
    )


def dimensions_of(op: Any) -> tuple[int, int]:
    """Along which elements share bytes before and after a `ck.repack`."""
    return integer_of(op, "before"), integer_of(op, "after")


def lengths_after(lengths: tuple[int, ...], packing: Packing, before: int, after: int) -> tuple[int, ...]:
    """Of a tile of bytes whose elements share bytes along another dimension.

    Raises:
        ValueError: bytes that hold elements in part, or elements that do not fill bytes.
    """
    found = list(lengths)
    found[before], found[after] = packing.count(lengths[before]), packing.size(lengths[after])
    return tuple(found)
