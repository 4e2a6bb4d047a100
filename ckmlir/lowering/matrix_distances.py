"""Wait states between a matrix instruction and a use of its result behind a branch.

LLVM's hazard recognizer goes back from the use and counts all instructions of the blocks before, from their ends
(GCNHazardRecognizer, getWaitStatesSince). Where a block ends with two branches, it so counts the second also on the way
through the first, on which it is not executed: one wait state too many. What is computed from accumulators where a loop
has been left then comes a state too early. Wait states in inline assembly are not counted, but they pass.
"""

from collections.abc import Iterator

from ckmlir.dialect.build import create
from ckmlir.lowering.accumulator_form import MATRIX, VIEWS_OF_REGISTERS
from ckmlir.lowering.branches import BRANCHES, received
from ckmlir.mlir import ir

ACCUMULATORS = 2
"""The operand of a matrix instruction for which its own kind waits by itself, or few states."""
MISCOUNTED = "s_nop 1"
"""2 wait states: a block with two branches, and another such between it and the matrix instruction."""


def keep_distances(function: ir.Operation) -> None:
    """Put the wait states that LLVM miscounts where blocks begin that use what was multiplied before they did.

    Loops that only multiply on have none; what an iteration of attention computes from the products of the one before
    has them at its beginning.
    """
    behind_branches = _behind_branches(function)
    for block in dict.fromkeys(_users(function)):
        if block in behind_branches:
            with ir.InsertionPoint.at_block_begin(block), block.operations[0].location:
                attributes = {
                    "asm_string": ir.StringAttr.get(MISCOUNTED),
                    "constraints": ir.StringAttr.get(""),
                    "has_side_effects": ir.UnitAttr.get(),
                }
                create("llvm.inline_asm", [], [], attributes)
                none = ir.Attribute.parse("#rocdl<sched_group_mask none>")
                ir.Operation.create("rocdl.sched.barrier", attributes={"mask": none})


def _behind_branches(function: ir.Operation) -> set[ir.Block]:
    """Blocks that a branch of two ways leads to, and where such ways go on without another choice."""
    ends = {block: block.operations[len(block.operations) - 1].operation for block in function.regions[0]}
    waiting = [to for end in ends.values() if end.name == "cf.cond_br" for to in end.successors]
    found = set(waiting)
    while waiting:
        end = ends[waiting.pop()]
        following = [to for to in end.successors if to not in found]
        found.update(following)
        waiting += following
    return found


def _users(function: ir.Operation) -> Iterator[ir.Block]:
    """Blocks that compute with the results of matrix instructions before them, other than multiplying on."""
    matrix = [view.operation for block in function.regions[0] for view in block if view.name == MATRIX]
    waiting: list[tuple[ir.Value, ir.Block | None]] = [(op.results[0], op.block) for op in matrix]
    seen = {value for value, _ in waiting}
    while waiting:
        value, home = waiting.pop()
        for use in value.uses:
            user, number = use.owner.operation, use.operand_number
            if user.name in BRANCHES or user.name in VIEWS_OF_REGISTERS:
                same = received(user, number) if user.name in BRANCHES else user.results[0]
                if same is not None and same not in seen:
                    seen.add(same)
                    waiting.append((same, None if user.name in BRANCHES else home))
            elif (home is None or user.block != home) and (user.name, number) != (MATRIX, ACCUMULATORS):
                yield user.block
