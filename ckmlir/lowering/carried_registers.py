"""How many vector registers of a lane the values take that a block gets from those before it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ckmlir.dialect.build import text_of
from ckmlir.mlir import ir
from ckmlir.targets.cdna import REGISTER_BITS

_VECTOR = re.compile(r"vector<(\d+)x[a-z]+(\d+)>")


def carried_registers(blocks: Iterable[ir.Block]) -> int:
    """The most 32-bit registers that the vectors among the arguments of one of these blocks take.

    A loop's accumulators are among them: they all live at a time, so a kernel has no fewer registers.
    """
    return max((sum(map(_registers, block.arguments)) for block in blocks), default=0)


def carried_beside_accumulators(blocks: Iterable[ir.Block]) -> int:
    """The same without accumulators in registers of their own (`accumulator_form`), of which LLVM allocates none to
    anything else; of blocks that are llvm's operations.
    """
    found = [[one for one in block.arguments if not _is_accumulator(one)] for block in blocks]
    return max((sum(map(_registers, arguments)) for arguments in found), default=0)


def _registers(argument: ir.Value) -> int:
    vector = _VECTOR.fullmatch(str(argument.type))
    return -(-int(vector[1]) * int(vector[2]) // REGISTER_BITS) if vector else 0


def _is_accumulator(argument: ir.Value) -> bool:
    """Whether assembly takes an argument in an accumulation register, and gives it back in the same."""
    return any(_accumulates(use.owner.operation, use.operand_number) for use in argument.uses)


def _accumulates(op: ir.Operation, number: int) -> bool:
    """Whether an operand of assembly is tied to a result in accumulation registers."""
    if op.name != "llvm.inline_asm":
        return False
    constraints = text_of(op, "constraints").split(",")
    results = [one for one in constraints if one.startswith("=")]
    tied = constraints[len(results) + number]
    return tied.isdigit() and results[int(tied)] == "=a"
