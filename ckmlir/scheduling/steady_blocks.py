"""The steady loop of a scheduled kernel, in blocks."""

from collections.abc import Sequence

from ckmlir.mlir import ir
from ckmlir.passes.loop_body import FRAGMENTS
from ckmlir.passes.walk import functions
from ckmlir.scheduling.machine_loop import innermost


def steady_blocks(module: ir.Module) -> list[ir.Block]:
    """The blocks of a kernel's main loop, in their order: of the loops that hold no other the one with most fragments;
    several if it holds a branch, an empty list if the kernel has no loop. The module's context is entered.
    """
    found = [
        blocks[first : last + 1]
        for function in functions(module)
        for blocks in [list(function.regions[0].blocks)]
        for first, last in innermost(_backward(blocks))
    ]
    return max(found, key=_fragments, default=[])


def _backward(blocks: Sequence[ir.Block]) -> list[tuple[int, int]]:
    """The places of blocks that are gone back to, each with that of a block which does so."""
    place = {block: number for number, block in enumerate(blocks)}
    return [
        (place[following], number)
        for number, block in enumerate(blocks)
        for following in block.operations[-1].operation.successors
        if place[following] <= number
    ]


def _fragments(blocks: Sequence[ir.Block]) -> int:
    return sum(op.operation.name in FRAGMENTS for block in blocks for op in block.operations)
