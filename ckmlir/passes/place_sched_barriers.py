"""Place sched_barriers so that the backend keeps the order that a schedule asks for.

Every memory fragment that ck-pipeline-loops pinned, and every barrier among them, gets a fence on both sides that
nothing may cross. The order of a steady loop is then the order of the machine code, with waits and registers left to
LLVM.
"""

from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect import synchronization
from ckmlir.dialect.build import text_of
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.loop_expansion import PINNED
from ckmlir.passes.walk import expanded_functions

BARRIERS = ("ck.barrier", "ck.wait")


@dataclass(frozen=True)
class PlaceSchedBarriers(Pass):
    """Fence pinned memory fragments, and the barriers among them, with sched_barriers."""

    name: ClassVar[str] = "ck-place-sched-barriers"
    keeps_lists: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for _, blocks in expanded_functions(module, self.name):
            for block in blocks:
                if any(PINNED in op.attributes for op in block):
                    block[:] = _fenced(block)


def _fenced(ops: list[ir.Operation]) -> list[ir.Operation]:
    """Fence what a block holds; what it holds then."""
    found: list[ir.Operation] = []
    fenced = False  # whether the last operation is a fence that nothing may cross
    due = False  # whether it wants a fence behind it
    waited = False  # whether it is a wait: its barrier stays with it
    for op in ops:
        if op.name == "ck.sched_barrier" and text_of(op, "mask") == "none":
            fenced, due, waited = True, False, False
            found.append(op)
            continue
        pinned = PINNED in op.attributes or op.name in BARRIERS
        together = waited and op.name in BARRIERS
        if (due or (pinned and not fenced)) and not together:
            with ir.InsertionPoint(op), op.location:
                found.append(synchronization.sched_barrier())
        fenced, due, waited = False, pinned, op.name == "ck.wait"
        found.append(op)
    return found
