"""Loads of rows that an index tells, where what lies along a row is compared as well.

Whether a row exists is the same for all loads of it: a condition of each row would be a pair of scalar registers, for
as long as loads go on, and where all lanes of a wave are told one row its number is a scalar register besides. So what
a row adds to the offset is in a vector register, beyond every buffer for a row that does not exist.
"""

from __future__ import annotations

from ckmlir.dialect.build import value
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.existence import room
from ckmlir.lowering.index import Index
from ckmlir.lowering.place import OUT_OF_RANGE, Place
from ckmlir.mlir import ir


def row_apart(place: Place, vector: Index, anywhere: int) -> tuple[ir.Value, Index] | None:
    """What the coordinate along the dimension `anywhere`, which may be any number, adds to a vector offset in bytes
    (i32), and the rest of the offset. None where it adds nothing, or the rest is not known to be small: a row that does
    not exist has to stay beyond every buffer with the rest added.
    """
    emit, told = place.ground.state.emit, place.inside[anywhere]
    if len(told.terms) != 1:
        return None
    (number,) = told.terms
    own = Index({one: factor for one, factor in vector.terms.items() if set(number) <= set(one)}, emit)
    rest = vector - own
    if not own.terms or rest.bound is None or rest.bound > -OUT_OF_RANGE:
        return None
    exists = (told < room(place, anywhere)).value

    def make() -> ir.Value:
        row = value("arith.select", emit.constant(0).type, [exists, own.emit(), emit.constant(OUT_OF_RANGE)])
        # What passes through assembly, which is empty, is in a vector register, and the condition is used here alone.
        return assembly(row.type, [row], "", "=v,0")

    return emit.once(("row told", exists, own.key), make), rest
