"""Multiplications that a wave leaves out where they change nothing."""

from ckmlir.dialect import arith
from ckmlir.dialect.build import value
from ckmlir.lowering.branches import where
from ckmlir.lowering.context import WAVE_SIZE, Lowering
from ckmlir.mlir import ir
from ckmlir.passes import vectors


def lower_rescale(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.rescale_vector to packed multiplications behind a scalar branch, which the wave takes around them where no
    lane has another factor than 1; NaN is another."""
    source, factors = op.operands
    each = [vectors.element(factors, place) for place in range(vectors.length_of(factors))]
    one = _constant(ir.FloatAttr.get(each[0].type, 1.0))
    needed, *others = [arith.cmpf(arith.CmpFPredicate.UNE, factor, one) for factor in each]
    for other in others:
        needed = arith.ori(needed, other)
    wave = ir.IntegerType.get_signless(WAVE_SIZE)
    lanes = value("rocdl.ballot", wave, [needed])
    some = arith.cmpi(arith.CmpIPredicate.ne, lanes, _constant(ir.IntegerAttr.get(wave, 0)))

    def multiplied() -> ir.Value:
        alike = vectors.splat(each[0], vectors.length_of(source))
        return value("arith.mulf", source.type, [source, factors if others else alike])

    return [where(op, some, multiplied, source)]


def _constant(attribute: ir.FloatAttr | ir.IntegerAttr) -> ir.Value:
    return value("arith.constant", attribute.type, [], {"value": attribute})
