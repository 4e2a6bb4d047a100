"""Multiplications that a wave leaves out where all their factors are 1: of a tile's rows, and of a vector."""

from typing import Any

from ckmlir.dialect.build import value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.row_checks import expect_rows
from ckmlir.dialect.types import tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir


class RescaleOp(Ck.Operation, name="rescale", traits=[ext.Pure]):
    """`ck.rescale %tile, %factors`: rows of f32, each times its factor; waves all of whose factors are 1 multiply
    nothing.
    """

    source: ext.Operand[Any]
    factors: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        expect_rows(op, "factors", "f32")
        element = tile_of(op.operation.operands[0]).element
        expect(str(element) == "f32", f"rows are f32, not {element}")


class RescaleVectorOp(Ck.Operation, name="rescale_vector", traits=[ext.Pure]):
    """`ck.rescale_vector %vector, %factors`: elements in f32 times one factor, or one each; a wave all of whose lanes
    have factors of 1 branches around the multiplications.
    """

    source: ext.Operand[Any]
    factors: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, factors = (operand.type for operand in op.operation.operands)
        for one in source, factors:
            is_taken = isinstance(one, ir.VectorType) and str(one.element_type) == "f32"
            expect(is_taken, f"takes vectors of f32, not {one}")
        expect(
            factors.shape[0] in (1, source.shape[0]), f"takes one factor or {source.shape[0]}, not {factors.shape[0]}"
        )
        expect(op.operation.results[0].type == source, "the result has the vector's type")


def rescale(source: ir.Value, factors: ir.Value) -> ir.Value:
    """A tile's rows times factors."""
    return value("ck.rescale", source.type, [source, factors])


def rescale_vector(source: ir.Value, factors: ir.Value) -> ir.Value:
    """A vector's elements times one factor, or one each."""
    return value("ck.rescale_vector", source.type, [source, factors])
