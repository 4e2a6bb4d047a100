"""Wait states that LLVM forgets, in kernels whose code turns out to lack them.

A matrix instruction that does not sum in place reads C until its last passes; nothing may overwrite C before that, nor
read the result. LLVM comes to each block once (`matrix_distances.py`), so that behind a branch around a few
instructions it may count these though waves go around them. And it does not look into inline assembly, which takes
elements of 4 bits apart: neither what it overwrites counts nor what it writes for a matrix instruction that follows.
Which instructions sum in place and what comes next only the code shows: of some 450 woven kernels of attention one
lacked two states, and so did a product with 4-bit weights. So the code of kernels with such branches or such assembly
is checked, and compiled once more with wait states in front of them, and behind assembly, if any are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.dialect.build import text_of
from ckmlir.dialect.control import end_of
from ckmlir.lowering.instructions import fence
from ckmlir.lowering.matrix_distances import nops, wait
from ckmlir.mlir import ir

MATRIX = ("rocdl.mfma", "rocdl.smfmac")
BRANCH, CONDITIONAL = "llvm.br", "llvm.cond_br"
ASSEMBLY, TEXT = "llvm.inline_asm", "asm_string"


class Doubtful(NamedTuple):
    """Where wait states may be missing: branches around a few instructions, and vector instructions in assembly."""

    branches: list[ir.Operation]
    assemblies: list[ir.Operation]

    def __bool__(self) -> bool:
        return bool(self.branches or self.assemblies)

    def wait(self, states: int) -> None:
        """Put so many wait states in front of each, and behind assembly. Behind a branch LLVM would put other
        instructions in front of them.
        """
        for branch in self.branches:
            with ir.InsertionPoint(branch), branch.location:
                fence("none")
                wait(states)
        for assembly in self.assemblies:
            text = f"{nops(states)}\n{text_of(assembly, TEXT)}\n{nops(states)}"
            assembly.attributes[TEXT] = ir.StringAttr.get(text, context=assembly.context)


def doubtful(module: ir.Module) -> Doubtful:
    """Of a lowered module, of blocks in which something is multiplied."""
    blocks = [
        block
        for top in module.body.operations if top.operation.name == "gpu.module"
        for function in top.operation.regions[0].blocks[0].operations if function.operation.regions
        for block in function.operation.regions[0].blocks if _multiplies(block)
    ]  # fmt: skip
    branches = [end for block in blocks if _goes_around(end := end_of(block))]
    return Doubtful(branches, [op for block in blocks for op in _assemblies(block)])


def _multiplies(block: ir.Block) -> bool:
    return any(op.operation.name.startswith(MATRIX) for op in block.operations)


def _goes_around(end: ir.Operation) -> bool:
    """Whether a block ends with a branch around another, which goes on where the branch leads."""
    if end.name != CONDITIONAL:
        return False
    into, around = end.successors
    last = end_of(into)
    joins: bool = last.name == BRANCH and last.successors[0] == around
    return joins


def _assemblies(block: ir.Block) -> Iterator[ir.Operation]:
    """Vector instructions, or several."""
    for op in (view.operation for view in block.operations):
        if op.name == ASSEMBLY and text_of(op, TEXT).startswith("v_"):
            yield op
