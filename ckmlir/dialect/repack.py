"""Packed elements that share bytes along one dimension of a tile, and then along another (`packing.py`).

No element leaves its thread: a lane has as many neighbours along both dimensions as share bytes, and turns them.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from ckmlir.dialect.build import integer, string, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.packed_checks import check_turned, dimensions_of, lengths_after, packing_of
from ckmlir.dialect.packed_tiles import elements_along, repacked
from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir


class RepackOp(Ck.Operation, name="repack", traits=[ext.Pure]):
    """`ck.repack %bytes {format, before, after}`: the elements that share bytes along dimension `before`, sharing them
    along dimension `after`.
    """

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        check_turned(op, source, result)
        packing, (before, after) = packing_of(op), dimensions_of(op)
        if source.distribution is not None and result.distribution is not None:
            expect(
                lie_alike(source.distribution, result.distribution, packing, before, after),
                f"elements that lie as '{source.distribution}' would leave their threads to lie as "
                f"'{result.distribution}'",
            )


class RepackFragmentOp(Ck.Operation, name="repack_fragment", traits=[ext.Pure]):
    """`ck.repack_fragment %bytes {format}`: vectors of bytes behind each other, as many as elements fill bytes, as
    vectors of those bytes, one for each element of one of them: the first has the first elements of all, and so on.
    """

    source: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        packing, source, result = packing_of(op), op.operation.operands[0].type, op.operation.results[0].type
        expect(
            all(isinstance(one, ir.VectorType) and str(one.element_type) == "i8" for one in (source, result)),
            f"takes and gives vectors of i8, not {source} and {result}",
        )
        block = packing.elements * packing.bytes
        expect(source.shape[0] % block == 0, f"{source.shape[0]} bytes are not whole blocks of {block}")
        expect(source == result, f"gives as many bytes as it takes, {source.shape[0]}, not {result.shape[0]}")


@lru_cache(maxsize=1024)
def lie_alike(source: Distribution, result: Distribution, packing: Packing, before: int, after: int) -> bool:
    """Whether every thread has the same elements of two tiles of bytes."""
    tiles = elements_along(source, packing, before), elements_along(result, packing, after)
    if len({(one.lengths, one.waves, one.lanes, one.registers) for one in tiles}) > 1:
        return False
    first, second = (
        np.sort(np.ravel_multi_index(tuple(one.coordinates()), one.lengths), axis=-1) for one in tiles
    )
    return bool((first == second).all())


def repack(source: ir.Value, format_: str, before: int, after: int) -> ir.Value:
    """A tile of bytes whose elements share bytes along `before`, as one where they share them along `after`."""
    tile, packing = tile_of(source), PACKED[format_]
    lengths = lengths_after(tile.lengths, packing, before, after)
    lies = None if tile.distribution is None else repacked(tile.distribution, packing, before, after)
    attributes = {"format": string(format_), "before": integer(before), "after": integer(after)}
    return value("ck.repack", TileType(lengths, tile.element, lies).mlir(), [source], attributes)


def repack_fragment(source: ir.Value, format_: str) -> ir.Value:
    """Vectors of bytes behind each other, turned."""
    return value("ck.repack_fragment", source.type, [source], {"format": string(format_)})
