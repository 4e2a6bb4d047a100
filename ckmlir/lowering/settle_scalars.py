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
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.build import producer, value
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.branches import received
from ckmlir.lowering.kernel_arguments import KernelArguments
from ckmlir.lowering.lowered_loops import ARITHMETIC, branching_kernels, is_constant, steady_loops
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow, Loop
from ckmlir.passes.framework import Pass

SETTLED = ("i32", "i64")
SHARED = frozenset({*(f"rocdl.workgroup.id.{axis}" for axis in "xyz"), "rocdl.readfirstlane", "llvm.call_intrinsic"})
"""What the lanes of a wave have in common; the one intrinsic that is called has the address of the arguments."""
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
            for op in dict.fromkeys(_computed_before(flow, steady, turns)):
                if lanes.share(op.results[0]):
                    _settle(op)


def _computed_before(flow: Flow, steady: Loop, turns: Loop) -> Iterator[ir.Operation]:
    """What the results of operations before a steady loop follow from, with constants, that a turn needs behind it."""
    before = {flow.blocks[place] for place in flow.dominators[steady.begin] & turns.places - steady.places}
    kept = _operands(flow, steady.places | {flow.way_to(steady)})
    for operand in _operands(flow, _behind(flow, steady, turns)):
        found = producer(_origin(operand))
        if found and found.block in before and operand not in kept and found.results[0] not in kept:
            yield found


def _operands(flow: Flow, places: Collection[int]) -> dict[ir.Value, None]:
    """What the operations of blocks take, in the order of the blocks."""
    ops = (op for place in sorted(places) for op in flow.blocks[place].operations)
    return dict.fromkeys(operand for op in ops for operand in op.operands)


def _behind(flow: Flow, steady: Loop, turns: Loop) -> set[int]:
    """The places of a turn that a loop leads to."""
    found: set[int] = set()
    waiting = list(steady.places)
    while waiting:
        new = {to for to in flow.following[waiting.pop()] if to in turns.places and to != turns.begin}
        waiting += new - found
        found |= new
    return found - steady.places


def _origin(scalar: ir.Value) -> ir.Value:
    """The scalar, or one that it follows from with constants alone."""
    op = producer(scalar)
    if op is None or op.name not in ARITHMETIC:
        return scalar
    varying = {operand for operand in op.operands if not is_constant(operand)}
    return _origin(varying.pop()) if len(varying) == 1 and op.name != "llvm.select" else scalar


def _settle(op: ir.Operation) -> None:
    (result,) = op.results
    if op.name not in ARITHMETIC or str(result.type) not in SETTLED:
        return
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
        for block in flow.blocks:
            branch = block.operations[-1].operation
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
            op = producer(one)
            if one in seen or (op and op.name in SHARED):
                continue
            seen.add(one)
            if op is None:
                waiting += self._handed[one]  # of an argument of the kernel there is nothing
            elif op.name in SHARING or _hands_on(op):
                waiting += op.operands
            else:
                return False
        return True


def _hands_on(op: ir.Operation) -> bool:
    """Whether an operation is empty assembly for a scalar register."""
    return op.name == "llvm.inline_asm" and '"=s,0"' in str(op.attributes["constraints"])
