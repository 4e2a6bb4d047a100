"""Elements of four bits as the numbers that they stand for: integers less a zero point, and times a scale."""

from typing import Any, NamedTuple

from ckmlir.dialect.build import segments_of, string, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.fragment import vector_type
from ckmlir.dialect.packed_checks import packing_of
from ckmlir.dialect.packed_tiles import elements_over
from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir

SCALED = ("f16", "bf16", "f32")
"""What scales are, and what elements become with one."""
POWERS = "f8E8M0FNU"
"""What scales of fp4 may be besides."""
SHIFTED = ("i8", "f8E4M3FN", "f8E4M3FNUZ")
"""What they become without, which holds differences of two exactly."""


class Operands(NamedTuple):
    """Of either operation."""

    octets: Any
    zeros: Any
    scales: Any


class DequantizeOp(Ck.Operation, name="dequantize", traits=[ext.Pure]):
    """`ck.dequantize %bytes, %zeros, %scales {format}`: the integers in a tile of bytes less their zero points, times
    their scales; the last dimension grows. Either may be missing. Or the fp4 in it times scales.

    With scales, in f32 and rounded once to f16, bf16 or f32; zero points have the scales' type. In bf16 nothing is
    promised of what is beyond 2^100, and what is below 2^-126 may become 0, unless scales are powers of two. Without,
    i8 or fp8: zero points are i8, and numbers of the format themselves.
    """

    source: ext.Operand[Any]
    zeros: ext.Operand[Any] | None
    scales: ext.Operand[Any] | None
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        check(op)


class DequantizeFragmentOp(Ck.Operation, name="dequantize_fragment", traits=[ext.Pure]):
    """`ck.dequantize_fragment %bytes, %zeros, %scales {format}`: of vectors, as `ck.dequantize` has them."""

    source: ext.Operand[Any]
    zeros: ext.Operand[Any] | None
    scales: ext.Operand[Any] | None
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        packing, parts = _packing_of(op), operands_of(op)
        octets, result = parts.octets.type, op.operation.results[0].type
        zeros, scales = (None if one is None else one.type for one in parts[1:])
        for one in (octets, result, zeros, scales):
            expect(one is None or isinstance(one, ir.VectorType), f"takes vectors, not {one}")
        types = octets.element_type, result.element_type, *(one and one.element_type for one in (zeros, scales))
        _check_types(packing, *types)
        count = octets.shape[0]
        for one in (result, zeros, scales):
            wanted = packing.count(count)
            expect(one is None or one.shape[0] == wanted, f"{count} bytes hold {wanted} elements, not {one}")


def check(op: Any) -> None:
    """Raise ValueError where tiles do not fit each other."""
    packing, parts = _packing_of(op), operands_of(op)
    source, result = tile_of(parts.octets), described_as(op.operation.results[0].type, TileType)
    beside = [None if one is None else tile_of(one) for one in (parts.zeros, parts.scales)]
    _check_types(packing, source.element, result.element, *(one and one.element for one in beside))
    expect(len(source.lengths) > 0, "elements share bytes along the last dimension, and a tile of one has none")
    wanted = (*source.lengths[:-1], packing.count(source.lengths[-1]))
    for what, tile in zip(("elements", "zero points", "scales"), (result, *beside), strict=True):
        if tile is None:
            continue
        expect(tile.lengths == wanted, f"{what} are {list(wanted)}, not {list(tile.lengths)}")
        if source.distribution is not None and tile.distribution is not None:
            lies = elements_over(source.distribution, packing)
            expect(tile.distribution == lies, f"{what} lie as '{lies}', not '{tile.distribution}'")


def operands_of(op: Any) -> Operands:
    """The operands, None for what is missing."""
    operands = list(op.operation.operands)
    _, zeros, scales = segments_of(op)
    return Operands(operands[0], operands[1] if zeros else None, operands[-1] if scales else None)


def _packing_of(op: Any) -> Packing:
    packing = packing_of(op)
    expect(packing.bits == 4, f"elements are of 4 bits, and these are of {packing.bits}")
    return packing


def _check_types(
    packing: Packing, octets: ir.Type, element: ir.Type, zeros: ir.Type | None, scales: ir.Type | None
) -> None:
    expect(packing.is_integer or zeros is None, "integers have zero points, floats have not")
    able = SHIFTED if scales is None else SCALED
    expect(
        str(octets) == "i8" and str(element) in able,
        f"bytes are i8 and elements {' or '.join(able)}, not {octets} and {element}",
    )
    expect(zeros is not None or scales is not None, "needs zero points or scales; without, ck.unpack has the integers")
    powers = (POWERS,) * (not packing.is_integer)
    expect(scales is None or str(scales) in (*SCALED, *powers), f"scales are {' or '.join(SCALED)}, not {scales}")
    wanted = "i8" if scales is None else str(scales)
    expect(zeros is None or str(zeros) == wanted, f"zero points are {wanted}, not {zeros}")


def dequantize(source: ir.Value, format_: str, element: ir.Type, zeros: Any = None, scales: Any = None) -> ir.Value:
    """A tile of bytes as what its elements stand for."""
    tile, packing = tile_of(source), PACKED[format_]
    lengths = (*tile.lengths[:-1], packing.count(tile.lengths[-1]))
    lies = None if tile.distribution is None else elements_over(tile.distribution, packing)
    return _created("ck.dequantize", TileType(lengths, element, lies).mlir(), source, format_, zeros, scales)


def dequantize_fragment(
    source: ir.Value, format_: str, element: ir.Type, zeros: Any = None, scales: Any = None
) -> ir.Value:
    """A vector of bytes as what its elements stand for."""
    wide = vector_type(PACKED[format_].count(source.type.shape[0]), element)
    return _created("ck.dequantize_fragment", wide, source, format_, zeros, scales)


def _created(name: str, type_: ir.Type, source: ir.Value, format_: str, zeros: Any, scales: Any) -> ir.Value:
    segments = ir.DenseI32ArrayAttr.get([1, int(zeros is not None), int(scales is not None)])
    beside = [one for one in (zeros, scales) if one is not None]
    return value(name, type_, [source, *beside], {"format": string(format_), "operandSegmentSizes": segments})
