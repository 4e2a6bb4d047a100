"""Wait states that LLVM forgets: after matrix instructions, and before lanes exchange what another block left.

An instruction of 16 passes that can scale its operands takes 20 wait states before anything but a matrix one may
read its result (LLVM's scheduling models, see `ckmlir.sim.analysis.matrix_hazards`); LLVM 22's hazard recognizer counts
19. What uses such a result in its own block gets it through one wait state in inline assembly, which is not counted
there, but passes.

Behind branches it miscounts for all instructions. It goes back from the use and counts all instructions of the blocks
before, from their ends (GCNHazardRecognizer, getWaitStatesSince). Where a block ends with two branches, it so counts
the second also on the way through the first, on which it is not executed: one wait state too many. What is computed
from accumulators where a loop has been left then comes a state too early, and so does a move between lanes (DPP,
V_PERMLANE32_SWAP_B32), two states behind whatever wrote its register: what a branch carries is copied right before it.

It comes to each block once: where two ways lead to a use, what stands in front of both counts as far away as by the one
that it goes first, be the other shorter. So products whose elements waves may branch around are waited for in front of
the branch. What products read late is another matter: `forgotten_states.py`.
"""

from collections.abc import Iterator

from ckmlir.dialect.build import create, producer, text_of
from ckmlir.dialect.control import end_of
from ckmlir.lowering.accumulator_form import MATRIX, VIEWS_OF_REGISTERS, assembly
from ckmlir.lowering.branches import BRANCHES, received
from ckmlir.lowering.instructions import fence
from ckmlir.mlir import ir
from ckmlir.targets import Target
from ckmlir.targets.mfma import INSTRUCTIONS

ACCUMULATORS = 2
"""The operand of a matrix instruction for which its own kind waits by itself, or few states."""
FORGOTTEN = 1
"""Wait states: what LLVM counts too few of for 16 passes."""
LONGEST = 64
"""Cycles of 16 passes."""
MISCOUNTED = 2
"""Wait states: a block with two branches, and another such between it and the matrix instruction. All that a move
between lanes takes."""
CUT = "ck.cut_vector"
MOST_MORE = 4
"""Wait states beyond passes before vector arithmetic may read a result, at most (LLVM, GCNHazardRecognizer,
checkMAIVALUHazards: 20 for 16 passes on gfx950)."""
CYCLES_OF_A_PASS = 4
MOST_AT_ONCE = 16
"""Wait states of one S_NOP (CDNA3 ISA, 12.5 "SOPP Instructions")."""
EXCHANGES = ("ck.exchange", "ck.half", "ck.row_lane")
PASSED_ON = (*VIEWS_OF_REGISTERS, "vector.extract", "vector.from_elements", "vector.shuffle")
"""What leaves a value in the registers where it is, or may."""


def keep_distances(function: ir.Operation, matrix: list[ir.Operation], exchanges: list[ir.Operation]) -> None:
    """Put the wait states that LLVM miscounts where blocks begin that use what was multiplied before they did, or whose
    lanes exchange what other blocks leave.

    Loops that only multiply on have none; what an iteration of attention computes from the products of the one before
    has them at its beginning.
    """
    behind_branches = _behind_branches(function) if matrix or exchanges else ()
    exchanging = (op.block for op in exchanges if _comes_from_before(op.operands[0], op.block))
    for block in dict.fromkeys((*_users(matrix), *_resuming(matrix), *exchanging)):
        if block in behind_branches:
            with ir.InsertionPoint.at_block_begin(block), block.operations[0].location:
                wait(MISCOUNTED)
                fence("none")


def wait_before_cuts(cuts: list[ir.Operation], target: Target) -> None:
    """Put wait states in front of the branch around a cut of what has just been multiplied in its block."""
    for op in cuts:
        cycles = [target.mfma_cycles[text_of(one, "instruction")] for one in _multiplied(op.operands[0], op.block)]
        if not cycles:
            continue
        with ir.InsertionPoint(op), op.location:
            fence("none")
            wait(max(cycles) // CYCLES_OF_A_PASS + MOST_MORE)


def nops(states: int) -> str:
    """So many wait states as instructions, a line each."""
    parts = (min(MOST_AT_ONCE, states - start) for start in range(0, states, MOST_AT_ONCE))
    return "\n".join(f"s_nop {part - 1}" for part in parts)


def wait(states: int) -> None:
    """Put so many wait states where this stands."""
    attributes = {
        "asm_string": ir.StringAttr.get(nops(states)),
        "constraints": ir.StringAttr.get(""),
        "has_side_effects": ir.UnitAttr.get(),
    }
    create("llvm.inline_asm", [], [], attributes)


def _multiplied(value: ir.Value, block: ir.Block) -> Iterator[ir.Operation]:
    """The matrix instructions of a block whose results a value has, as they are."""
    owner = producer(value)
    if owner is None or owner.block != block:
        return
    if owner.name == MATRIX:
        yield owner
    elif owner.name in PASSED_ON:
        for part in owner.operands:
            yield from _multiplied(part, block)


def lengthen_distances(matrix: list[ir.Operation], target: Target) -> None:
    """Put the wait state that LLVM forgets between long matrix instructions and what uses their results in the same
    block.
    """
    for op in matrix:
        name = text_of(op, "instruction")
        if target.mfma_cycles.get(name, 0) < LONGEST or not INSTRUCTIONS[name].scaled:
            continue
        here = [
            use for use in op.results[0].uses
            if use.owner.operation.block == op.block and _computes(use.owner.operation, use.operand_number)
        ]  # fmt: skip
        if here:
            users = [use.owner.operation for use in here]
            first = next(view.operation for view in op.block if view.operation in users)
            with ir.InsertionPoint(first), first.location:
                waited = assembly(op.results[0].type, [op.results[0]], nops(FORGOTTEN), "=v,0")
            for use, user in zip(here, users, strict=True):
                user.operands[use.operand_number] = waited


def _computes(user: ir.Operation, number: int) -> bool:
    """Whether a use is one that waits for the result."""
    return user.name not in BRANCHES and (user.name, number) != (MATRIX, ACCUMULATORS)


def _comes_from_before(value: ir.Value, block: ir.Block) -> bool:
    """Whether a value, or part of it, is left by another block."""
    owner = producer(value)
    if owner is None or owner.block != block:
        return True
    return owner.name in PASSED_ON and any(_comes_from_before(part, block) for part in owner.operands)


def _behind_branches(function: ir.Operation) -> set[ir.Block]:
    """Blocks that a branch of two ways leads to, and where such ways go on without another choice."""
    ends = {block: end_of(block) for block in function.regions[0]}
    waiting = [to for end in ends.values() if end.name == "cf.cond_br" for to in end.successors]
    found = set(waiting)
    while waiting:
        end = ends[waiting.pop()]
        following = [to for to in end.successors if to not in found]
        found.update(following)
        waiting += following
    return found


def _resuming(matrix: list[ir.Operation]) -> Iterator[ir.Block]:
    """Blocks that multiply on, once, behind other products, as a remainder does: what they compute first may take
    registers that the last of these still write."""
    multiplying = {op.block for op in matrix}
    behind = {to for block in multiplying for to in _following(block)}
    waiting = [block for block in behind if block not in multiplying]
    while waiting:
        found = [to for to in _following(waiting.pop()) if to not in behind]
        behind.update(found)
        waiting += [block for block in found if block not in multiplying]
    return (block for block in behind & multiplying if not _comes_again(block))


def _comes_again(block: ir.Block) -> bool:
    """Whether a block is of a loop."""
    waiting, seen = [block], set[ir.Block]()
    while waiting:
        found = [to for to in _following(waiting.pop()) if to not in seen]
        if block in found:
            return True
        seen.update(found)
        waiting += found
    return False


def _following(block: ir.Block) -> list[ir.Block]:
    return list(end_of(block).successors)


def _users(matrix: list[ir.Operation]) -> Iterator[ir.Block]:
    """Blocks that compute with the results of matrix instructions before them, other than multiplying on."""
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
