"""Multiplications that a wave leaves out where they change nothing."""

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_value, value
from ckmlir.lowering.branches import changed_where_any
from ckmlir.lowering.context import Lowering
from ckmlir.mlir import ir
from ckmlir.passes import vectors


def lower_rescale(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.rescale_vector to packed multiplications behind a scalar branch, which the wave takes around them where no
    lane has another factor than 1; NaN is another.

    Vectors that were joined for it, such as accumulators of matrix instructions, come by the branch one by one: of
    one that is longer than any register, LLVM would hand on every element by itself.
    """
    source, factors = op.operands
    each = [vectors.element(factors, place) for place in range(vectors.length_of(factors))]
    one = _constant(ir.FloatAttr.get(each[0].type, 1.0))
    needed = [arith.cmpf(arith.CmpFPredicate.UNE, factor, one) for factor in each]

    def multiplied(piece: ir.Value, start: int) -> ir.Value:
        length = vectors.length_of(piece)
        own = vectors.splat(each[0], length) if len(each) == 1 else vectors.part(factors, start, length)
        return value("arith.mulf", piece.type, [piece, own])

    return [changed_where_any(op, needed, source, multiplied)]


def _constant(attribute: ir.FloatAttr) -> ir.Value:
    return constant_value(attribute)
