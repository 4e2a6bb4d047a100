"""Rows of which a side is cut off: of a tile, and of a vector; waves whose rows are whole branch around that."""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import attributes_of, registers, registers_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.row_checks import expect_rows
from ckmlir.dialect.scalars import is_float
from ckmlir.dialect.types import tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir

FRONT = "front"
"""Set where what lies in front of the bounds is cut off; without it what lies at them and behind."""


class CutOp(Ck.Operation, name="cut", traits=[ext.Pure]):
    """`ck.cut %tile, %bounds {other}`: rows of a floating-point type, each with a bound (i32) in columns of the tile;
    elements at it and behind become `other`, of that type, with the attribute `front` those before it. Waves of which
    nothing is cut branch around.
    """

    source: ext.Operand[Any]
    bounds: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        expect_rows(op, "bounds", "i32")
        element = tile_of(op.operation.operands[0]).element
        expect(is_float(element), f"rows are of a floating-point type, not {element}")
        _expect_other(op, element)


class CutVectorOp(Ck.Operation, name="cut_vector", traits=[ext.Pure]):
    """`ck.cut_vector %vector, %bounds, %lane {columns, other}`: elements of rows with one bound, or one each, which lie
    in `columns` behind the lane's own. Those at their bound and behind, or `front` of it, become `other`.
    """

    source: ext.Operand[Any]
    bounds: ext.Operand[Any]
    lane: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, bounds, lane = (operand.type for operand in op.operation.operands)
        of_numbers = isinstance(source, ir.VectorType) and is_float(source.element_type)
        expect(of_numbers, f"takes a vector of a floating-point type, not {source}")
        of_bounds = isinstance(bounds, ir.VectorType) and str(bounds.element_type) == "i32"
        expect(of_bounds, f"takes a vector of i32, not {bounds}")
        expect(bounds.shape[0] in (1, source.shape[0]), f"takes one bound or {source.shape[0]}, not {bounds.shape[0]}")
        expect(str(lane) == "i32", f"takes the lane's column as i32, not {lane}")
        columns = len(registers_of(op.operation, "columns"))
        expect(columns == source.shape[0], f"has a column for each of {source.shape[0]} elements, not {columns}")
        expect(op.operation.results[0].type == source, "the result has the vector's type")
        _expect_other(op, source.element_type)


def _expect_other(op: ir.OpView, element: ir.Type) -> None:
    other = attributes_of(op.operation).get("other")
    fits = isinstance(other, ir.FloatAttr) and other.type == element
    expect(fits, f"needs the attribute 'other', a number in {element}")


def cut(source: ir.Value, bounds: ir.Value, other: float, *, front: bool) -> ir.Value:
    """A tile's rows with one side of their bounds cut off."""
    number = ir.FloatAttr.get(tile_of(source).element, other)
    return value("ck.cut", source.type, [source, bounds], _attributes(number, front))


def cut_vector(
    source: ir.Value, bounds: ir.Value, lane: ir.Value, columns: Sequence[int], other: ir.Attribute, *, front: bool
) -> ir.Value:
    """A vector's elements with one side of the bounds of their rows cut off."""
    attributes = {"columns": registers(columns), **_attributes(other, front)}
    return value("ck.cut_vector", source.type, [source, bounds, lane], attributes)


def _attributes(other: ir.Attribute, front: bool) -> dict[str, ir.Attribute]:
    return {"other": other, **({FRONT: ir.UnitAttr.get()} if front else {})}
