"""Scalars that are needed behind a steady loop, computed before it.

LLVM puts an operation where its result is first needed. Behind a steady loop that may be worse: the operands then live
through the loop, a dozen of them where a share of the work ends, instead of one number. Of kernels with many arguments
that is more than there are registers for, and the rest goes to lanes of vector registers. So what a turn around steady
loops computes before one, and needs behind it but not in it, passes through empty assembly where it is computed, which
LLVM leaves there. What follows from it and from constants alone takes no more registers, and goes where LLVM likes.

What the block in front of the loop takes stays as it is, too: where a bound comes from assembly, LLVM does not know how
far the loop goes, and counts with more registers (under a window beside dropout 15 to 21 were in lanes, not 0 to 5).

Attention backward by workgroups that stay, beside two parts, kept 12 to 27 scalar registers in lanes before (a causal
mask, 64 to 256 channels).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.build import producer, value
from ckmlir.dialect.control import end_of
from ckmlir.dialect.held import hands_on
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.branches import received
from ckmlir.lowering.kernel_arguments import KernelArguments, is_segment
from ckmlir.lowering.lowered_loops import ARITHMETIC, branching_kernels, is_constant, steady_loops
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow, Loop
from ckmlir.passes.framework import Pass

SETTLED = ("i32", "i64")
SHARED = frozenset({*(f"rocdl.workgroup.id.{axis}" for axis in "xyz"), "rocdl.readfirstlane"})
"""What the lanes of a wave have in common, beside the address of the arguments."""
SHARING = ARITHMETIC | {"llvm.mlir.constant", "llvm.getelementptr", "llvm.load"}
"""What they have in common if they do the operands."""


@dataclass(frozen=True)
class SettleScalars(Pass):
    """Let what turns need behind steady loops alone be computed before them."""

    name: ClassVar[str] = "ck-settle-scalars"

    def apply(self, module: ir.Module) -> None:
        for function in branching_kernels(module):
            if KernelArguments(function.regions[0].blocks[0]).are_many:
                _settle_scalars(function)


def _settle_scalars(function: ir.Operation) -> None:
    flow = Flow(list(function.regions[0]))
    lanes = _Lanes(flow)
    for turns in flow.outermost:
        for steady in steady_loops(flow, turns):
            for op in list(_needed_behind(flow, steady, turns)):
                if lanes.share(op.results[0]):
                    _settle(op)


def _needed_behind(flow: Flow, steady: Loop, turns: Loop) -> Iterator[ir.Operation]:
    """Arithmetic before a steady loop on whose result, or on what follows from that and from constants, a turn depends
    behind it, but not in it.

    Found from what is computed before: of ten thousand operands behind a loop few are scalars.
    """
    before = (flow.blocks[place] for place in sorted(flow.dominators[steady.begin] & turns.places - steady.places))
    kept = {flow.blocks[place] for place in steady.places | {flow.way_to(steady)}}
    behind = {flow.blocks[place] for place in _behind(flow, steady, turns)}
    for block in before:
        for one in block.operations:
            op = one.operation
            if op.name not in ARITHMETIC or str(op.results[0].type) not in SETTLED or _follows_from_one(op):
                continue
            first = _blocks_of_users(op)
            if kept.isdisjoint(first) and any(
                kept.isdisjoint(blocks) and not behind.isdisjoint(blocks) for blocks in (first, *_following(op))
            ):
                yield op


def _following(op: ir.Operation) -> Iterator[set[ir.Block]]:
    """Of each result that follows from an operation's and from constants, the blocks that take it."""
    users = {one for use in op.results[0].uses if _follows_from_one(one := use.owner.operation)}
    for user in users:
        yield _blocks_of_users(user)
        yield from _following(user)


def _blocks_of_users(op: ir.Operation) -> set[ir.Block]:
    return {use.owner.operation.block for use in op.results[0].uses}


def _follows_from_one(op: ir.Operation) -> bool:
    """Whether an operation is arithmetic of one scalar, and of constants."""
    return (
        op.name in ARITHMETIC
        and op.name != "llvm.select"
        and len({operand for operand in op.operands if not is_constant(operand)}) == 1
    )


def _behind(flow: Flow, steady: Loop, turns: Loop) -> set[int]:
    """The places of a turn that a loop leads to."""
    found: set[int] = set()
    waiting = list(steady.places)
    while waiting:
        new = {to for to in flow.following[waiting.pop()] if to in turns.places and to != turns.begin}
        waiting += new - found
        found |= new
    return found - steady.places


def _settle(op: ir.Operation) -> None:
    (result,) = op.results
    following = list(op.block)
    with ir.InsertionPoint(following[following.index(op) + 1]), op.location:
        # LLVM may have computed it by vector arithmetic, and then does not find its way to a scalar register.
        first = value("rocdl.readfirstlane", result.type, [result])
        settled = assembly(result.type, [first], "", "=s,0", effects=True)
    result.replace_all_uses_except(settled, first.owner.operation)


class _Lanes:
    """What the lanes of a wave have in common."""

    def __init__(self, flow: Flow) -> None:
        self._handed: dict[ir.Value, list[ir.Value]] = defaultdict(list)
        self._shared = set[ir.Value]()
        for block in flow.blocks:
            branch = end_of(block)
            # Lanes that take different ways meet where one of the ways is the branch itself (`branches.where_all`).
            condition = branch.operands[:1] if len(branch.successors) > 1 else ()
            for number, operand in enumerate(branch.operands):
                if branch.successors and (into := received(branch, number)) is not None:
                    self._handed[into] += (operand, *condition)

    def share(self, scalar: ir.Value) -> bool:
        """Whether they have a scalar in common: all that it follows from on every way, and which way they take."""
        waiting, seen = [scalar], set[ir.Value]()
        while waiting:
            one = waiting.pop()
            if one in seen or one in self._shared:
                continue
            op = producer(one)
            if op and (op.name in SHARED or is_segment(op)):
                continue
            seen.add(one)
            if op is None:
                waiting += self._handed[one]  # of an argument of the kernel there is nothing
            elif op.name in SHARING or hands_on(op):
                waiting += op.operands
            else:
                return False
        self._shared |= seen
        return True
