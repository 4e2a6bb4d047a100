"""Values that are computed in one place and kept in scalar registers: empty assembly, of which LLVM knows nothing."""

from ckmlir.dialect.build import string, value
from ckmlir.mlir import ir


def held(given: ir.Value) -> ir.Value:
    """The same value, out of a scalar register."""
    same = {"asm_string": string(""), "constraints": string("=s,0"), "has_side_effects": ir.UnitAttr.get()}
    return value("llvm.inline_asm", given.type, [given], same)


def hands_on(op: ir.Operation) -> bool:
    """Whether an operation is empty assembly for a scalar register, whose result is its operand."""
    return op.name == "llvm.inline_asm" and '"=s,0"' in str(op.attributes["constraints"])
