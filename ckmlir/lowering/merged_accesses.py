"""Loads and stores through a view that divides, of a tile that takes many of them.

A wave whose lanes lie along one row has another row for each access. If rows are a merged dimension, or columns are,
each access has a place of its own that is the same for all lanes: a base, and whether it exists, six scalar registers.
Many accesses have an offset in a vector register instead, from the base of the window's origin, with the sign set,
which no buffer reaches, where the row does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from ckmlir.dialect.transforms import Merge
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.existence import before_the_ends
from ckmlir.lowering.index import Emitter, Index
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import OUT_OF_RANGE, Place
from ckmlir.mlir import ir


def in_vectors(place: Place) -> tuple[Index, ir.Value, Index] | None:
    """The base, the offset of each lane in bytes (i32), and the scalar offset; None where the view does not divide, or
    has other paddings than ends.
    """
    ground, emit = place.ground, place.ground.state.emit
    if not any(isinstance(step.transform, Merge) for step in ground.descriptor.steps):
        return None
    missing = before_the_ends(place)
    if missing is None or place.offset.negative.terms or ground.start.terms:
        return None
    shared = ground.origin.part(Rate.ORIGIN).terms
    base = Index({one: factor for one, factor in place.offset.terms.items() if one in shared}, emit)
    rest = place.offset - base
    own = rest.part(Rate.FIXED, Rate.ORIGIN, constant=True)
    alike, others = missing
    row = _signed(own.emit(), alike, emit)
    # What passes through assembly, which is empty, is in vector registers, and computed before loops.
    row = emit.once(("row", row), lambda: assembly(row.type, [row], "", "=v,0"))
    lanes = emit.binary("addi", rest.part(Rate.LANE).emit(), row)
    return base, _signed(lanes, others, emit), rest.part(Rate.STEP)


def _signed(offset: ir.Value, signs: Sequence[ir.Value], emit: Emitter) -> ir.Value:
    """An offset with the sign set where one of these numbers is negative."""
    sign = emit.constant(OUT_OF_RANGE)
    return reduce(partial(emit.binary, "ori"), (emit.binary("andi", one, sign) for one in signs), offset)
