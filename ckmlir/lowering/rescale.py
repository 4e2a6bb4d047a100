"""Multiplications that a wave leaves out where they change nothing."""

from ckmlir.dialect.build import integer, value
from ckmlir.lowering.branches import where
from ckmlir.lowering.context import WAVE_SIZE, Lowering
from ckmlir.mlir import arith, ir
from ckmlir.passes import vectors


def lower_rescale(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.rescale_vector to packed multiplications behind a scalar branch, which the wave takes around them where no
    lane has another factor than 1; NaN is another."""
    source, factors = op.operands
    each = [vectors.element(factors, place) for place in range(vectors.length_of(factors))]
    one = arith.constant(each[0].type, ir.FloatAttr.get(each[0].type, 1.0))
    needed, *others = [arith.cmpf(arith.CmpFPredicate.UNE, factor, one) for factor in each]
    for other in others:
        needed = arith.ori(needed, other)
    wave = ir.IntegerType.get_signless(WAVE_SIZE)
    lanes = value("rocdl.ballot", wave, [needed])
    some = arith.cmpi(arith.CmpIPredicate.ne, lanes, arith.constant(wave, integer(0)))

    def multiplied() -> ir.Value:
        alike = vectors.splat(each[0], vectors.length_of(source))
        product: ir.Value = arith.mulf(source, factors if others else alike)
        return product

    return [where(op, some, multiplied, source)]
