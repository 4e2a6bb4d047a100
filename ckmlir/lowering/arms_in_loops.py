"""Choices between two arms in the steps of a loop, which LLVM is told to keep as they are.

Its StructurizeCFG makes of such a choice two branches, one behind the other, with a test for each, also where all lanes
take one way, as they do at all branches of our kernels: by the model a step of attention backward that stores or adds
takes 26 cycles longer so on gfx950. LLVM can be told to leave those branches alone. It is, for kernels with a choice in
an innermost loop; of others, as of those that do something there or nothing, it would make no better code.
"""

from __future__ import annotations

from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow


def has_arms_in_loops(blocks: list[ir.Block]) -> bool:
    """Whether a kernel has an innermost loop with a choice between two blocks that both go on to a third; of any
    operations."""
    flow = Flow(blocks)
    return any(_meets(flow, place) for loop in flow.innermost for place in loop.places)


def _meets(flow: Flow, place: int) -> bool:
    """Whether a block chooses between two that go on to the same one."""
    match flow.following[place]:
        case [first, second] if first != second:
            meeting = flow.following[first]
            return len(meeting) == 1 and meeting == flow.following[second] and meeting[0] not in (first, second)
        case _:
            return False
