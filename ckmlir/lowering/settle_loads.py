"""Loads in front of a steady loop, which stay in order.

Where a loop has fewer steps than one turn of the steady loop, nobody needs what the turn's last steps load, so LLVM
moves these loads, with what computes their addresses, behind the last branch before the loop. There its scheduler may
ask for B before A, while the loop asks for A before B. A wait counts what has been asked for since, so that in the loop
LLVM then has to wait for less than may be on its way: from 96 x 128 of experts, whose A goes through LDS and whose B
does not, for two loads instead of six, each turn. By the model on gfx950 such a workgroup alone takes 14242 cycles
instead of 16533.

Empty assembly in front of the branch, of which LLVM knows only that it has effects, keeps its optimizer from that. What
comes later moves loads alone, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ckmlir.lowering.lowered_loops import branching_kernels, steady_loops
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow
from ckmlir.passes.framework import Pass

LOAD, BRANCH = "rocdl.raw.ptr.buffer.load", "llvm.cond_br"
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
    last = before.operations[len(before.operations) - 1].operation
    if last.name != BRANCH or sum(op.operation.name == LOAD for op in before.operations) < TWO:
        return
    nothing = ir.StringAttr.get("")
    with ir.InsertionPoint(last), last.location:
        attributes = {"asm_string": nothing, "constraints": nothing, "has_side_effects": ir.UnitAttr.get()}
        ir.Operation.create("llvm.inline_asm", attributes=attributes)
