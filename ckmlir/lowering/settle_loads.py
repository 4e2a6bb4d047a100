"""Loads in front of a steady loop, which stay in order.

Where a loop has fewer steps than one turn of the steady loop, nobody needs what the turn's last steps load, so LLVM
moves these loads, with what computes their addresses, behind the last branch before the loop. There its scheduler may
ask for B before A, while the loop asks for A before B. A wait counts what has been asked for since, so that in the loop
LLVM then has to wait for less than may be on its way: from 96 x 128 of experts, whose A goes through LDS and whose B
does not, for two loads instead of six, each turn. By the model on gfx950 such a workgroup alone takes 14242 cycles
instead of 16533.

Empty assembly in front of the branch, of which LLVM knows only that it has effects, keeps its optimizer from that. What
comes later moves loads alone, in their order. It is put there where turns hand loads on to matrix instructions: what
goes through LDS is asked for a step ahead, in one order, and attention by way of LDS had a wait more with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.control import end_of
from ckmlir.lowering.lowered_loops import MATRIX, branching_kernels, steady_loops
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow
from ckmlir.passes.framework import Pass
from ckmlir.passes.slots import handed

LOAD, BRANCH = "rocdl.raw.ptr.buffer.load", "llvm.cond_br"
FACTORS = 2
"""Operands of a matrix instruction, the first of all."""
CASTS = frozenset(
    f"llvm.{name}" for name in (
        "bitcast", "extractelement", "extractvalue", "insertelement", "insertvalue", "shufflevector"
    )
)  # fmt: skip
"""Through which a load is followed."""
TWO = 2
"""Loads, of which one can be before the other."""


@dataclass(frozen=True)
class SettleLoads(Pass):
    """Let loads before a branch to a steady loop stay in order."""

    name: ClassVar[str] = "ck-settle-loads"

    def apply(self, module: ir.Module) -> None:
        for function in branching_kernels(module):
            flow = Flow(list(function.regions[0]))
            for turns in flow.outermost:
                for steady in steady_loops(flow, turns):
                    _settle(flow.blocks[flow.way_to(steady)])


def _settle(before: ir.Block) -> None:
    last = end_of(before)
    loads = [op.operation.results[0] for op in before.operations if op.operation.name == LOAD]
    if last.name != BRANCH or len(loads) < TWO or not _are_multiplied(loads):
        return
    nothing = ir.StringAttr.get("")
    with ir.InsertionPoint(last), last.location:
        attributes = {"asm_string": nothing, "constraints": nothing, "has_side_effects": ir.UnitAttr.get()}
        ir.Operation.create("llvm.inline_asm", attributes=attributes)


def _are_multiplied(loads: list[ir.Value]) -> bool:
    """Whether a matrix instruction takes one that branches hand on."""
    pending, seen = [(load, False) for load in loads], set[tuple[ir.Value, bool]]()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        loaded, on = one
        for use in loaded.uses:
            user = use.owner.operation
            if MATRIX in user.name and on and use.operand_number < FACTORS:
                return True
            if user.name in CASTS:
                pending.append((user.results[0], on))
            for number, successor in enumerate(user.successors):
                given = zip(successor.arguments, handed(user, number), strict=True)
                pending += [(argument, True) for argument, value in given if value == loaded]
    return False
