"""Conversions between bytes and the packed elements in them, of tiles and of fragments (`packing.py`)."""

from typing import Any

from ckmlir.dialect.build import integer, integer_of, string, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.fragment import vector_type
from ckmlir.dialect.packed_checks import packing_of
from ckmlir.dialect.packed_tiles import bytes_over, elements_over
from ckmlir.dialect.packing import PACKED, Packing, light_exponent
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir

EXPONENT = "exponent"
WIDE = ("f32", "f16", "f8E4M3FN", "f8E4M3FNUZ")
"""What packed elements become, exactly."""
OF_INTEGERS = ("i8",)
"""What integers become as well."""
OF_SIGNED = ("f8E5M2", "f8E5M2FNUZ")
"""What those become as well that are signed: it holds 7, but not 9."""


class UnpackOp(Ck.Operation, name="unpack", traits=[ext.Pure]):
    """`ck.unpack %bytes {format}`: the elements in a tile of bytes as f32, f16 or fp8, exactly, integers as i8 and
    signed ones as bf8 too; the last dimension grows. With `{exponent}` integers are times 2^exponent, which is the one
    that takes the fewest instructions (`packing.light_exponent`).
    """

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        _check_tiles(packing_of(op), source, result, wide_of(packing_of(op)))
        _check_exponent(op, result.element)


class PackOp(Ck.Operation, name="pack", traits=[ext.Pure]):
    """`ck.pack %elements {format}`: a tile of f32 as bytes, rounded to nearest even; what is too large becomes the
    largest number, and NaN some number.
    """

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        _check_tiles(packing_of(op), result, source)


class UnpackFragmentOp(Ck.Operation, name="unpack_fragment", traits=[ext.Pure]):
    """`ck.unpack_fragment %bytes {format}`: the elements in a vector of bytes as `ck.unpack` has them."""

    source: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        packing = packing_of(op)
        _check_vectors(packing, op.operation.operands[0].type, op.operation.results[0].type, wide_of(packing))
        _check_exponent(op, op.operation.results[0].type.element_type)


class PackFragmentOp(Ck.Operation, name="pack_fragment", traits=[ext.Pure]):
    """`ck.pack_fragment %elements {format}`: a vector of f32 as bytes, as `ck.pack` rounds."""

    source: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_vectors(packing_of(op), op.operation.results[0].type, op.operation.operands[0].type)


def wide_of(packing: Packing) -> tuple[str, ...]:
    """The types that elements become, exactly."""
    return (*WIDE, *(OF_INTEGERS if packing.is_integer else ()), *(OF_SIGNED if is_signed(packing) else ()))


def exponent_of(op: Any) -> int:
    """Of the power of two that elements are multiplied by."""
    return integer_of(op, EXPONENT) if EXPONENT in op.operation.attributes else 0


def is_signed(packing: Packing) -> bool:
    """Whether elements are integers with a sign."""
    return packing.is_integer and packing.signed


def _check_exponent(op: Any, element: ir.Type) -> None:
    found, able = exponent_of(op), sorted({0, light_exponent(packing_of(op), str(element))})
    expect(found in able, f"elements become {element} times 2^{' or 2^'.join(map(str, able))}, not times 2^{found}")


def _check_tiles(packing: Packing, octets: TileType, elements: TileType, wide: tuple[str, ...] = ("f32",)) -> None:
    expect(
        str(octets.element) == "i8" and str(elements.element) in wide,
        f"bytes are i8 and elements {' or '.join(wide)}, not {octets.element} and {elements.element}",
    )
    expect(len(octets.lengths) > 0, "elements share bytes along the last dimension, and a tile of one has none")
    wanted = (*octets.lengths[:-1], packing.count(octets.lengths[-1]))
    bytes_, found = list(octets.lengths), list(elements.lengths)
    expect(elements.lengths == wanted, f"{bytes_} bytes hold {list(wanted)}, not {found}")
    if octets.distribution is not None and elements.distribution is not None:
        lies = elements_over(octets.distribution, packing)
        expect(elements.distribution == lies, f"the elements lie as '{lies}', not '{elements.distribution}'")


def _check_vectors(packing: Packing, octets: ir.Type, elements: ir.Type, wide: tuple[str, ...] = ("f32",)) -> None:
    expect(
        isinstance(octets, ir.VectorType) and str(octets.element_type) == "i8"
        and isinstance(elements, ir.VectorType) and str(elements.element_type) in wide,
        f"takes vectors of i8 and of {' or '.join(wide)}, not {octets} and {elements}",
    )  # fmt: skip
    wanted = packing.count(octets.shape[0])
    expect(elements.shape[0] == wanted, f"{octets.shape[0]} bytes hold {wanted} elements, not {elements.shape[0]}")


def unpack(source: ir.Value, format_: str, element: ir.Type, exponent: int = 0) -> ir.Value:
    """A tile of bytes as elements of a type of `wide_of`, times 2^exponent."""
    tile, packing = tile_of(source), PACKED[format_]
    lengths = (*tile.lengths[:-1], packing.count(tile.lengths[-1]))
    lies = None if tile.distribution is None else elements_over(tile.distribution, packing)
    wide = TileType(lengths, element, lies)
    return value("ck.unpack", wide.mlir(), [source], _attributes(format_, exponent))


def pack(source: ir.Value, format_: str) -> ir.Value:
    """A tile of f32 as bytes."""
    tile, packing = tile_of(source), PACKED[format_]
    lengths = (*tile.lengths[:-1], packing.size(tile.lengths[-1]))
    lies = None if tile.distribution is None else bytes_over(tile.distribution, packing)
    octet = ir.IntegerType.get_signless(8)
    return value("ck.pack", TileType(lengths, octet, lies).mlir(), [source], {"format": string(format_)})


def unpack_fragment(source: ir.Value, format_: str, element: ir.Type | None = None, exponent: int = 0) -> ir.Value:
    """A vector of bytes as f32, or another type, times 2^exponent."""
    count = PACKED[format_].count(source.type.shape[0])
    wide = vector_type(count, element or ir.F32Type.get())
    return value("ck.unpack_fragment", wide, [source], _attributes(format_, exponent))


def _attributes(format_: str, exponent: int) -> dict[str, ir.Attribute]:
    named: dict[str, ir.Attribute] = {"format": string(format_)}
    return {**named, EXPONENT: integer(exponent)} if exponent else named


def pack_fragment(source: ir.Value, format_: str) -> ir.Value:
    """A vector of f32 as bytes."""
    count, octet = PACKED[format_].size(source.type.shape[0]), ir.IntegerType.get_signless(8)
    return value("ck.pack_fragment", vector_type(count, octet), [source], {"format": string(format_)})
