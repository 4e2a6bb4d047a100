"""Wait states before branches around a few instructions, in kernels in which LLVM turns out to have forgotten them.

A matrix instruction that does not sum in place reads C until its last passes; nothing may overwrite that before. LLVM
comes to each block once (`matrix_distances.py`), so that behind a branch around a few instructions it may count these
though waves go around them. Where it does not sum in place, and what it puts behind the branch, only its code shows: of
some 450 woven kernels of attention one had such a place. So the code of kernels with such branches is checked, and what
has one is compiled once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.lowering.instructions import fence
from ckmlir.lowering.matrix_distances import wait
from ckmlir.mlir import ir

MATRIX = ("rocdl.mfma", "rocdl.smfmac")
BRANCH, CONDITIONAL = "llvm.br", "llvm.cond_br"
STATES = "s_nop 14"
"""15 wait states: C of an instruction of 16 passes (LLVM, GCNHazardRecognizer, checkMAIVALUHazards)."""


def branches_around(module: ir.Module) -> list[ir.Operation]:
    """Of a lowered module the branches around a few instructions in whose blocks something has been multiplied."""
    functions = (
        one.operation
        for top in module.body.operations if top.operation.name == "gpu.module"
        for one in top.operation.regions[0].blocks[0].operations if one.operation.regions
    )  # fmt: skip
    return [branch for function in functions for branch in _branches_around(function)]


def _branches_around(function: ir.Operation) -> Iterator[ir.Operation]:
    ends = {block: block.operations[len(block.operations) - 1].operation for block in function.regions[0].blocks}
    for block, end in ends.items():
        if end.name != CONDITIONAL:
            continue
        into, around = end.successors
        last = ends[into]
        if last.name == BRANCH and last.successors[0] == around and _multiplies(block):
            yield end


def _multiplies(block: ir.Block) -> bool:
    return any(op.operation.name.startswith(MATRIX) for op in block.operations)


def wait_before(branches: list[ir.Operation]) -> None:
    """Put wait states in front of branches: what is behind them LLVM may put in front of wait states there."""
    for branch in branches:
        with ir.InsertionPoint(branch), branch.location:
            fence("none")
            wait(STATES)
