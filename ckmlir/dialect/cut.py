"""Rows of which a side is cut off: of a tile, and of a vector; waves whose rows are whole branch around that."""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import attributes_of, registers, registers_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.row_checks import expect_rows
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir

FRONT = "front"
"""Set where what lies in front of the bounds is cut off; without it what lies at them and behind."""


class CutOp(Ck.Operation, name="cut", traits=[ext.Pure]):
    """`ck.cut %tile, %bounds {other}`: rows of f32, each with a bound (i32) in columns of the tile; elements at it and
    behind become `other`, with the attribute `front` those before it. Waves of which nothing is cut branch around.
    """

    source: ext.Operand[Any]
    bounds: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        expect_rows(op, "bounds", "i32")
        _expect_other(op)


class CutVectorOp(Ck.Operation, name="cut_vector", traits=[ext.Pure]):
    """`ck.cut_vector %vector, %bounds, %lane {columns, other}`: elements in f32 of rows with one bound, or one each,
    which lie in `columns` behind the lane's own. Those at their bound and behind, or `front` of it, become `other`.
    """

    source: ext.Operand[Any]
    bounds: ext.Operand[Any]
    lane: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, bounds, lane = (operand.type for operand in op.operation.operands)
        for one, wanted in (source, "f32"), (bounds, "i32"):
            is_taken = isinstance(one, ir.VectorType) and str(one.element_type) == wanted
            expect(is_taken, f"takes a vector of {wanted}, not {one}")
        expect(bounds.shape[0] in (1, source.shape[0]), f"takes one bound or {source.shape[0]}, not {bounds.shape[0]}")
        expect(str(lane) == "i32", f"takes the lane's column as i32, not {lane}")
        columns = len(registers_of(op.operation, "columns"))
        expect(columns == source.shape[0], f"has a column for each of {source.shape[0]} elements, not {columns}")
        expect(op.operation.results[0].type == source, "the result has the vector's type")
        _expect_other(op)


def _expect_other(op: ir.OpView) -> None:
    other = attributes_of(op.operation).get("other")
    expect(isinstance(other, ir.FloatAttr) and str(other.type) == "f32", "needs the attribute 'other', a number in f32")


def cut(source: ir.Value, bounds: ir.Value, other: float, *, front: bool) -> ir.Value:
    """A tile's rows with one side of their bounds cut off."""
    return value("ck.cut", source.type, [source, bounds], _attributes(ir.FloatAttr.get(ir.F32Type.get(), other), front))


def cut_vector(
    source: ir.Value, bounds: ir.Value, lane: ir.Value, columns: Sequence[int], other: ir.Attribute, *, front: bool
) -> ir.Value:
    """A vector's elements with one side of the bounds of their rows cut off."""
    attributes = {"columns": registers(columns), **_attributes(other, front)}
    return value("ck.cut_vector", source.type, [source, bounds, lane], attributes)


def _attributes(other: ir.Attribute, front: bool) -> dict[str, ir.Attribute]:
    return {"other": other, **({FRONT: ir.UnitAttr.get()} if front else {})}
