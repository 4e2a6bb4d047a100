"""Offsets that a loop hands on from turn to turn.

What passes through empty assembly in a loop (`other_offsets`) may come out as another value, so LLVM keeps what went in
for the next turn, and copies it. A loop that does not change what goes in may as well take what came out of the turn
before: that is the same number, in one register instead of two, without a copy. In a loop with branches several blocks
have such assembly, of which a turn passes some. There it passes through where the turn ends, for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import accumulate, chain, pairwise
from typing import Any

from ckmlir.dialect.build import producer
from ckmlir.dialect.control import end_of
from ckmlir.lowering.branches import BRANCHES
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow

SEGMENTS = "operandSegmentSizes"


def hand_on(function: ir.Operation, passing: Iterable[ir.Operation]) -> None:
    """Let innermost loops hand on what passes through these operations in them, if one block leads to a loop and one
    ends its turns."""
    inside: dict[ir.Block, list[ir.Operation]] = defaultdict(list)
    for op in passing:
        inside[op.block].append(op)
    if not inside:
        return
    flow = Flow(list(function.regions[0]))
    for loop in flow.innermost:
        blocks = [flow.blocks[place] for place in sorted(loop.places)]
        before = [one for one, following in enumerate(flow.following) if loop.begin in following]
        outside = [flow.blocks[one] for one in before if one not in loop.ends]
        alike: dict[Any, list[ir.Operation]] = defaultdict(list)
        for op in chain(*(inside[block] for block in blocks)):
            alike[_form(op.operands[0], blocks)].append(op)
        if len(outside) != 1 or len(loop.ends) != 1:
            continue
        (end,) = loop.ends
        for ops in alike.values():
            if (computed := _computed_in(ops[0].operands[0], blocks)) is not None:
                for op in computed:
                    op.move_before(end_of(outside[0]))
                _hand(ops, outside[0], flow.blocks[loop.begin], flow.blocks[end])


def _hand(ops: list[ir.Operation], outside: ir.Block, begin: ir.Block, end: ir.Block) -> None:
    """Let a loop hand on what goes into operations that are alike, and is the same in each turn."""
    first, *others = ops
    taken = begin.add_argument(first.results[0].type, first.location)
    _append(end_of(outside), begin, first.operands[0])
    first.operands[0] = taken
    if begin != end:
        first.move_before(end_of(end))
        for op in ops:
            op.results[0].replace_all_uses_with(taken)
        for op in others:
            op.erase()
    _append(end_of(end), begin, first.results[0])


def _form(operand: ir.Value, blocks: Collection[ir.Block]) -> Any:
    """How a value is computed in some blocks: what is computed in the same way is equal."""
    op = producer(operand)
    if op is None or op.block not in blocks:
        return operand
    attributes = frozenset((name, op.attributes[name]) for name in op.attributes)
    return op.name, attributes, tuple(_form(one, blocks) for one in op.operands)


def _computed_in(operand: ir.Value, blocks: Collection[ir.Block]) -> dict[ir.Operation, None] | None:
    """The arithmetic of a loop that a value follows from, in its order; None if it changes from turn to turn."""
    found: dict[ir.Operation, None] = {}
    op = producer(operand)
    if op is None:
        return found if ir.BlockArgument(operand).owner not in blocks else None
    if op.block not in blocks:
        return found
    if not op.name.startswith("arith."):
        return None
    for one in op.operands:
        inner = _computed_in(one, blocks)
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
