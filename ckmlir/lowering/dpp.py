"""Moves of registers between lanes by data-parallel primitives: CDNA3 ISA, 6.4 "DPP"."""

from ckmlir.dialect.build import value
from ckmlir.mlir import ir

QUAD = 4
"""Neighbouring lanes that a quad permutation moves registers between."""


def moved(word: ir.Value, control: int, *, rows: int = 0b1111, others: ir.Value | None = None) -> ir.Value:
    """The moved value in the rows of 16 lanes named by a mask; the other rows take theirs from `others`."""
    i32 = ir.IntegerType.get_signless(32)
    attributes = {
        "dppCtrl": ir.IntegerAttr.get(i32, control), "rowMask": ir.IntegerAttr.get(i32, rows),
        "bankMask": ir.IntegerAttr.get(i32, 15), "boundCtrl": ir.BoolAttr.get(True),
    }  # fmt: skip
    # Where every lane has a source the old value is never kept; poison leaves LLVM free to fold the move into its user.
    old = value("llvm.mlir.poison", word.type, []) if others is None else others
    return value("rocdl.update.dpp", word.type, [old, word], attributes)


def from_quad(word: ir.Value, seat: int) -> ir.Value:
    """In all lanes of a quad the value that the lane at this seat has: quad_perm [seat, seat, seat, seat]."""
    return moved(word, seat * 0b01010101)
