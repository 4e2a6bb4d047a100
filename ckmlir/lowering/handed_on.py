"""Offsets that a loop hands on from turn to turn.

What passes through empty assembly in a loop (`global_access`) may come out as another value, so LLVM keeps what went in
for the next turn, and copies it. A loop that does not change what goes in may as well take what came out of the turn
before: that is the same number, in one register instead of two, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, chain, pairwise

from ckmlir.dialect.build import producer
from ckmlir.lowering.branches import BRANCHES
from ckmlir.mlir import ir

SEGMENTS = "operandSegmentSizes"


def hand_on(function: ir.Operation, passing: Iterable[ir.Operation]) -> None:
    """Let loops of one block that one other block leads to hand on what passes through these operations in them."""
    for op in passing:
        block = op.block
        before = [one for one in function.regions[0] if block in one.operations[-1].operation.successors]
        if len(before) != 2 or block not in before:
            continue
        (outside,) = (one for one in before if one != block)
        if not _moved_in_front(op.operands[0], block, outside.operations[-1].operation):
            continue
        taken = block.add_argument(op.results[0].type, op.location)
        _append(outside.operations[-1].operation, block, op.operands[0])
        op.operands[0] = taken
        _append(block.operations[-1].operation, block, op.results[0])


def _moved_in_front(operand: ir.Value, block: ir.Block, branch: ir.Operation) -> bool:
    """Whether a value does not follow from a block's arguments by more than arithmetic, which is moved if so."""
    ops = _computed_in(operand, block)
    if ops is None:
        return False
    for op in ops:
        op.move_before(branch)
    return True


def _computed_in(operand: ir.Value, block: ir.Block) -> dict[ir.Operation, None] | None:
    """The arithmetic of a block that a value follows from, in its order; None if it changes from turn to turn."""
    found: dict[ir.Operation, None] = {}
    op = producer(operand)
    if op is None:
        return found if ir.BlockArgument(operand).owner != block else None
    if op.block != block:
        return found
    if not op.name.startswith("arith."):
        return None
    for one in op.operands:
        inner = _computed_in(one, block)
        if inner is None:
            return None
        found |= inner
    return {**found, op: None}


def _append(branch: ir.Operation, to: ir.Block, handed: ir.Value) -> None:
    """Let a branch hand one more value to a block."""
    assert branch.name in BRANCHES
    attributes = {name: branch.attributes[name] for name in branch.attributes}
    operands = list(branch.operands)
    sizes = list(ir.DenseI32ArrayAttr(attributes[SEGMENTS])) if SEGMENTS in attributes else [0, len(operands)]
    ends = list(accumulate(sizes))
    groups = [operands[begin:end] for begin, end in pairwise(ends)]
    for group, successor in zip(groups, branch.successors, strict=True):
        group += [handed] * (successor == to)
    if SEGMENTS in attributes:
        attributes[SEGMENTS] = ir.DenseI32ArrayAttr.get([sizes[0], *map(len, groups)])
    following = {"operands": [*operands[: sizes[0]], *chain(*groups)], "successors": list(branch.successors)}
    with ir.InsertionPoint(branch), branch.location:
        ir.Operation.create(branch.name, attributes=attributes, **following)
    branch.erase()
