"""Rows of which a side is cut off, in waves that have such rows."""

from collections.abc import Sequence

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_value, integer, intrinsic, registers_of, value
from ckmlir.dialect.cut import FRONT
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.branches import changed_where_any
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.short_vectors import AT_A_TIME
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.targets.cdna import WAVE_SIZE


def lower_cut(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.cut_vector to selections behind a scalar branch, which the wave takes around them where no lane has an element
    beyond its row's bound."""
    source, bounds, lane = op.operands
    columns, front = registers_of(op, "columns"), FRONT in op.attributes
    # Elements are compared as constants: the lane's own column is taken from the bound, which saturates.
    limits = [
        value("llvm.intr.ssub.sat", lane.type, [vectors.element(bounds, place), lane])
        for place in range(vectors.length_of(bounds))
    ]
    shared = len(limits) == 1
    first_cut = [min(columns) if front else max(columns)] if shared else columns
    beyond = arith.CmpIPredicate.sgt if front else arith.CmpIPredicate.sle
    some = [arith.cmpi(beyond, limit, _column(one)) for limit, one in zip(limits, first_cut, strict=True)]

    choose = _chosen if str(source.type.element_type) == "f32" else _chosen_one_by_one
    places = list(zip(columns, limits * len(columns) if shared else limits, strict=True))

    def chosen(piece: ir.Value, start: int) -> ir.Value:
        own = places[start : start + vectors.length_of(piece)]
        return choose(piece, own, op.attributes["other"], front=front)

    return [changed_where_any(op, some, source, chosen)]


def _chosen(source: ir.Value, places: Sequence[tuple[int, ir.Value]], other: ir.Attribute, *, front: bool) -> ir.Value:
    """Elements on the right side of their limits, and another number. A few comparisons stand before the selections by
    them, so that no selection waits for its comparison (`short_vectors.AT_A_TIME`): the number passes through empty
    inline assembly that takes all of their masks."""
    kept = arith.CmpIPredicate.sle if front else arith.CmpIPredicate.sgt
    number = constant_value(other)
    wave, made = ir.IntegerType.get_signless(WAVE_SIZE), list[ir.Value]()
    for start in range(0, len(places), AT_A_TIME):
        group = places[start : start + AT_A_TIME]
        masks = [value("rocdl.ballot", wave, [arith.cmpi(kept, limit, _column(column))]) for column, limit in group]
        number = assembly(number.type, [number, *masks], "", ",".join(["=v", "0", *["s"] * len(masks)]))
        for place, mask in enumerate(masks, start):
            made.append(value("arith.select", number.type, [_lanes(mask), vectors.element(source, place), number]))
    return vectors.from_elements(made)


def _chosen_one_by_one(
    source: ir.Value, places: Sequence[tuple[int, ir.Value]], other: ir.Attribute, *, front: bool
) -> ir.Value:
    """As `_chosen`, of elements that share registers: what is chosen is packed behind each comparison."""
    kept = arith.CmpIPredicate.sle if front else arith.CmpIPredicate.sgt
    number, made = constant_value(other), list[ir.Value]()
    for place, (column, limit) in enumerate(places):
        inside = arith.cmpi(kept, limit, _column(column))
        made.append(value("arith.select", number.type, [inside, vectors.element(source, place), number]))
    return vectors.from_elements(made)


def _lanes(mask: ir.Value) -> ir.Value:
    """Whether a lane's bit is set in a mask."""
    return intrinsic("llvm.amdgcn.inverse.ballot", ir.IntegerType.get_signless(1), [mask])


def _column(number: int) -> ir.Value:
    attribute = integer(number, 32)
    return constant_value(attribute)
