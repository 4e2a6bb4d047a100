"""What readers of an LDS tensor want of the tile that is written to it: along which dimension its vectors lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckmlir.dialect.build import registers_of
from ckmlir.dialect.packed_checks import dimensions_of, packing_of
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.mlir import ir
from ckmlir.passes.accesses import run_length
from ckmlir.passes.transposed_reads import transposed_reading
from ckmlir.targets.features import TRANSPOSED

IN_THREADS = ("ck.permute_axes", "ck.dequantize", "ck.repack", "ck.cast", "ck.map")
"""What stands between packed elements as memory has them and what LDS takes of them. What `ck.unpack` makes of them is
written to LDS one by one: attention over fp4 takes .89 of the cycles that it does where loads follow V's readers."""


def wanted_by_readers(
    members: list[ir.Value], widest: int, transposing: tuple[int, int] | None
) -> tuple[int, int] | None:
    """(dimension, vector length) that the LDS readers of a tile read along, if it goes to LDS, by way of what changes
    elements within their threads.

    Those do not count that can transpose while they read a tensor: `transposing` is its contiguous dimension, and how
    many elements a lane reads so.
    """
    wishes = [wish for member in members for use in member.uses for wish in _wishes(use, widest, transposing)]
    return max(wishes, key=lambda wish: wish[1], default=None)


def _wishes(use: Any, widest: int, transposing: tuple[int, int] | None) -> Iterator[tuple[int, int]]:
    """What readers of a tile want that is used so."""
    op = use.owner.operation
    if op.name == "ck.to_lds":
        for read in op.results[0].uses:
            tile = tile_of(read.owner.operation.results[0]) if read.owner.operation.name == "ck.from_lds" else None
            if tile is None or tile.distribution is None:
                continue
            if "format" in read.owner.operation.attributes:  # it turns what lies as memory does
                continue
            if transposing is not None and _turns(tile, *transposing):
                continue
            for dim in range(len(tile.lengths)):
                yield dim, run_length(tile.distribution, dim, widest)
    elif op.name == "ck.element":  # of a map, which is around it
        for further in op.parent.results[0].uses:
            yield from _wishes(further, widest, transposing)
    elif op.name in IN_THREADS and use.operand_number == 0:
        kept = None if op.name in ("ck.dequantize", "ck.repack") else transposing
        for further in op.results[0].uses:
            for dim, length in _wishes(further, widest, kept):
                yield _before(op, dim, length)


def _turns(tile: TileType, contiguous: int, count: int) -> bool:
    """Whether reads that transpose so many elements give a tile of a tensor that is contiguous along a dimension."""
    assert tile.distribution is not None
    return TRANSPOSED.get(bits(tile.element)) == count and (
        transposed_reading(tile.distribution, contiguous, count) is not None
    )


def _before(op: ir.Operation, dim: int, length: int) -> tuple[int, int]:
    """The same of what an operation of `IN_THREADS` is made of: elements that become so many along a dimension."""
    if op.name in ("ck.cast", "ck.map"):
        return dim, length
    if op.name == "ck.permute_axes":
        return registers_of(op, "order")[dim], length
    packing, last = packing_of(op), len(tile_of(op.results[0]).lengths) - 1
    before, after = dimensions_of(op) if op.name == "ck.repack" else (last, None)
    if dim == before:
        return dim, _whole_groups(length, packing.elements) * packing.bytes
    return dim, _whole_groups(length, packing.bytes) * packing.elements if dim == after else length


def _whole_groups(length: int, group: int) -> int:
    """A power of two, of which tiles are multiples."""
    return 1 << max(length // group, 1).bit_length() - 1
