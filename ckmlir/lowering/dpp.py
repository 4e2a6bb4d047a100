"""Moves of registers between lanes by data-parallel primitives: CDNA3 ISA, 6.4 "DPP"."""

from ckmlir.dialect.build import value
from ckmlir.lowering.accumulator_form import assembled
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


def from_each_seat(word: ir.Value) -> tuple[ir.Value, ...]:
    """The value of each lane of a quad in turn, in all of its lanes: by assembly, which LLVM may take out of a loop, as
    it does not take what is done by several lanes. Two wait states lie between an instruction that writes a vector
    register and one that reads it by data-parallel primitives (CDNA3 ISA, 4.5 "Manually inserted wait states").
    """
    moves = (f"v_mov_b32_dpp ${seat}, $4 quad_perm:[{seat},{seat},{seat},{seat}] row_mask:0xf bank_mask:0xf"
             for seat in range(QUAD))  # fmt: skip
    return tuple(assembled("\n".join(("s_nop 1", *moves)), [word.type] * QUAD, [word], "=&v,=&v,=&v,=&v,v")[1])


def from_quad(word: ir.Value, seat: int) -> ir.Value:
    """In all lanes of a quad the value that the lane at this seat has: quad_perm [seat, seat, seat, seat]."""
    return moved(word, seat * 0b01010101)
