"""Turns without carries in a loop of their own, so that they compute only what changes with every step.

What a loop over a merged dimension loads lies at digits that `ck-carry-digits` hands round it. Of those of a window's
origin only the last one advances with every step; the others, the place of a window for example, change where that one
carries. All that follows from them, such as which rows exist at a place and where they begin, is computed in the first
turn on a place only:

    first:   the steady loop's turn as it was; if none of the next one's steps is at another place, on to
    turns:   the same turn, at the digits of the first one's last step, of which only the last advances, with the index
    behind:  from both, where a digit carries in the next turn: back to the first; or where none is left out of the loop

Where the last dimension is known to be whole turns of the steady loop, and the loop to begin with one, digits carry
between two turns only, and a turn advances them once. Else, in parts of a sum for example, the first turn on a place
may have begun on the one before, and each of its steps has digits of its own.

The order of the instructions, registers and buffers are as they were, and nothing is drained or filled in between: what
runs ahead in the last turn of a place already belongs to the next.

The pass comes behind those of the schedule, whose proof is about the loop as it was. It leaves loops alone whose digits
it does not find to advance with the loop's own index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import ClassVar, NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import create, integer_of, producer, string, text_of
from ckmlir.dialect.control import end_of
from ckmlir.dialect.digits import ORIGIN, WITH_DIGITS, merged_along
from ckmlir.dialect.divisors import Divisors
from ckmlir.dialect.loop import ADVANCES
from ckmlir.dialect.symbols import divisor
from ckmlir.dialect.transforms import Merge
from ckmlir.dialect.types import WindowType
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ir
from ckmlir.passes.branch_expansion import branch, cond_branch, mark_advancing
from ckmlir.passes.carries import Digits, advance_of, advanced, constant
from ckmlir.passes.framework import Pass
from ckmlir.passes.proof.flow import handed
from ckmlir.passes.repeated_blocks import Loop, block_behind, copy, handed_behind, is_outside, left_by, loop_of
from ckmlir.passes.walk import expanded_functions, forget_lists


@dataclass(frozen=True)
class SplitAtCarries(Pass):
    """Give the turns of steady loops in which no digit of a merged coordinate carries a loop of their own."""

    name: ClassVar[str] = "ck-split-at-carries"
    keeps_lists: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for function, blocks in expanded_functions(module, self.name, with_loops=True):
            for block, held in zip(list(function.regions[0]), blocks, strict=True):
                walks = [op for op in held if op.name == WITH_DIGITS and text_of(op, "of") == ORIGIN]
                loop = loop_of(block, held) if walks else None
                walk = _walk(loop, walks) if loop is not None else None
                if loop is not None and walk is not None:
                    _split(*(_at_once(loop, walk) if _is_in_turns(walk, loop) else (loop, walk)))
                    forget_lists()


class Walk(NamedTuple):
    """Digits that a loop advances.

    Attributes:
        numbers: of the block's arguments.
        digits: in the steps of a turn, and behind the last one.
        lengths: as `advanced` takes them.
        divisor: what is known to divide the last of them.
    """

    numbers: tuple[int, ...]
    digits: list[Digits]
    lengths: Digits
    divisor: int


def _walk(loop: Loop, accesses: Sequence[ir.Operation]) -> Walk | None:
    """The digits of all accesses of a loop, if they are those of one walk whose last dimension is whole steps."""
    first = tuple(accesses[0].operands)[1:]
    while (advance := advance_of(first)) is not None:
        first = advance.before
    if any(one.owner != loop.block for one in first) or not loop.turn:
        return None
    numbers = tuple(ir.BlockArgument(one).arg_number for one in first)
    digits: Digits = tuple(loop.again[number] for number in numbers)
    chain, lengths = [digits], list[Digits]()
    for _ in range(loop.steps):
        advance = advance_of(digits)
        if advance is None or not _is_rest_of(advance.step, loop.stride, advance.lengths[-1]):
            return None
        digits = advance.before
        chain.insert(0, digits)
        lengths.append(advance.lengths)
    known = all(tuple(one.operands)[1:] in chain[:-1] for one in accesses)
    known_divisor = gcd(*map(_last_length, accesses))
    same = digits == first and all(one == lengths[0] and is_outside(one[-1], loop.block) for one in lengths)
    walk = Walk(numbers, chain, lengths[0], known_divisor)
    whole_steps = known_divisor % (loop.turn // loop.steps) == 0
    return walk if known and same and whole_steps and _is_apart(walk, loop) else None


def _is_rest_of(step: ir.Value, stride: ir.Value, length: ir.Value) -> bool:
    """Whether the last digit advances by what is left of the loop's stride, or all of it where that is not more."""
    owner = producer(step)
    divided = owner is not None and owner.name == "arith.remui" and list(owner.operands) == [stride, length]
    return step == stride or divided


def _last_length(access: ir.Operation) -> int:
    """What is known to divide the length of the last dimension that an access knows the digit of."""
    merge = merged_along(described_as(access.operands[0].type, WindowType).descriptor, integer_of(access, "axis"))
    assert merge is not None and isinstance(merge.transform, Merge)
    return divisor(merge.transform.lengths[-1])


def _is_apart(walk: Walk, loop: Loop) -> bool:
    """Whether steps use nothing but their digits of what makes digits, and those behind the last step are handed on."""
    making = _making(walk, loop)
    known = {one for digits in walk.digits[:-1] for one in digits}
    others = (result for op in making for result in op.results if result not in known)
    users = {use.owner.operation for one in others for use in one.uses}
    return not any(op in users and op not in making for op in loop.body)


def _making(walk: Walk, loop: Loop) -> list[ir.Operation]:
    """The operations that compute the digits of a walk, in their order."""
    pending, found = [one for digits in walk.digits for one in digits], set[ir.Operation]()
    while pending:
        owner = producer(pending.pop())
        if owner is not None and owner.block == loop.block and owner not in found:
            found.add(owner)
            pending += owner.operands
    return [op for op in loop.body if op in found]


def _is_in_turns(walk: Walk, loop: Loop) -> bool:
    """Whether the last dimension is whole turns, and the last digit a multiple of a turn wherever the loop begins."""
    divisors, length = Divisors(), walk.lengths[-1]
    if walk.divisor % loop.turn:
        return False
    for digits in _entries(walk, loop):
        steps = 0
        while (advance := advance_of(digits)) is not None and _is_rest_of(advance.step, loop.stride, length):
            digits, steps = advance.before, steps + 1
        owner = producer(digits[-1])
        if owner is None or owner.name != "arith.remui" or owner.operands[1] != length or steps % loop.steps:
            return False
        if divisors.of(owner.operands[0]) % loop.turn:
            return False
    return True


def _entries(walk: Walk, loop: Loop) -> Iterator[Digits]:
    """The digits that are handed to a loop from outside."""
    for block in loop.block.region:
        end = end_of(block)
        for number, successor in enumerate(end.successors):
            if successor == loop.block and block != loop.block:
                given = handed(end, number)
                yield tuple(given[one] for one in walk.numbers)


def _at_once(loop: Loop, walk: Walk) -> tuple[Loop, Walk]:
    """Have a turn advance its digits once, by what all of its steps advance them by."""
    making = _making(walk, loop)
    first, *others, last = walk.digits
    with end_of(loop.block).location, ir.InsertionPoint(making[0]):
        later = _behind_turn(first, walk, loop)
        _replace(last, later, making)
        for number, digits in enumerate(others, 1):
            inside = arith.addi(first[-1], constant(number * loop.turn // loop.steps))
            _replace(digits, [*first[:-1], inside], making)
    for op in reversed(making):
        op.erase()
    body = [op.operation for op in loop.block][:-1]
    again = list(end_of(loop.block).operands)[1 : 1 + len(loop.again)]
    compared = producer(end_of(loop.block).operands[0])
    loop = loop._replace(body=[op for op in body if op != compared], again=again)
    return loop, walk._replace(digits=[first, tuple(later)])


def _replace(old: Sequence[ir.Value], new: Sequence[ir.Value], without: Sequence[ir.Operation]) -> None:
    for one, other in zip(old, new, strict=True):
        for use in [use for use in one.uses if use.owner.operation not in without]:
            use.owner.operation.operands[use.operand_number] = other


def _split(loop: Loop, walk: Walk) -> None:
    """Put a loop of turns without carries behind the block, and behind both what decides how it goes on."""
    first, end = loop.block, end_of(loop.block)
    moving = [number for number in range(len(first.arguments)) if number not in walk.numbers]
    *before, last = walk.digits[:-1]
    with end.location:
        left = left_by(loop)
        behind = block_behind(first, left)
        _lead_on(loop, behind, left)
        turns = block_behind(first, [first.arguments[number] for number in moving])
        with _after(last[-1], first):
            start = first.arguments[loop.counter]
            ahead = arith.subi(walk.lengths[-1], last[-1])
            limit = arith.addi(start, arith.minsi(ahead, arith.subi(loop.bound, start)))
            shift = arith.subi(last[-1], start)
            if before:
                shift = arith.subi(shift, constant(len(before) * loop.turn // loop.steps))
        _repeat(loop, walk, moving, turns, limit, shift, behind, left)
        with ir.InsertionPoint(end):
            _keep(walk.digits[-1])
            stays = arith.cmpi(arith.CmpIPredicate.slt, loop.following, limit)
            cond_branch(stays, turns, [loop.again[number] for number in moving], behind, left)
    compared = producer(end.operands[0])
    end.erase()
    assert compared is not None
    compared.erase()
    # Straight on to the next place, where a place is one turn; the other way round LLVM would turn the loop over.
    end_of(first).attributes["branch_weights"] = ir.DenseI32ArrayAttr.get([1, 1000])
    mark_advancing([first, turns], {turns})


def _lead_on(loop: Loop, behind: ir.Block, left: Sequence[ir.Value]) -> None:
    """Have the block behind do what the loop's own end did: go on with the next turn, or leave the loop."""
    end, now = end_of(loop.block), handed_behind(loop, behind, left)
    given = [now.get(one, one) for one in end.operands][1:]
    count = len(loop.again)
    with ir.InsertionPoint(behind):
        more = arith.cmpi(arith.CmpIPredicate.slt, now[loop.following], loop.bound)
        cond_branch(more, loop.block, given[:count], end.successors[1], given[count:])
    end_of(behind).attributes[ADVANCES] = end.attributes[ADVANCES]


def _repeat(
    loop: Loop,
    walk: Walk,
    moving: Sequence[int],
    turns: ir.Block,
    limit: ir.Value,
    shift: ir.Value,
    behind: ir.Block,
    left: Sequence[ir.Value],
) -> None:
    """Fill the loop of turns, up to a limit of its index, with what the first one does but for its digits, which are
    those of its last step; the last of these is `shift` more than the index. Where the loop ends they advance.
    """
    making, others = _making(walk, loop), walk.digits[-2][:-1]
    now = {loop.block.arguments[number]: argument for number, argument in zip(moving, turns.arguments, strict=True)}
    with ir.InsertionPoint(turns):
        inside = arith.addi(shift, now[loop.block.arguments[loop.counter]])
        for number, digits in enumerate(walk.digits[:-1]):
            behind_first = constant(number * loop.turn // loop.steps)
            now |= zip(digits, (*others, arith.addi(inside, behind_first) if number else inside), strict=True)
        for op in loop.body:
            if op not in making:
                copy(op, now)
        stays = arith.cmpi(arith.CmpIPredicate.slt, now[loop.following], limit)
        carrying = block_behind(turns, [])
        given = [loop.again[number] for number in moving]
        cond_branch(stays, turns, [now.get(one, one) for one in given], carrying, [])
    with ir.InsertionPoint(carrying):
        now |= zip(walk.digits[-1], _behind_turn((*others, inside), walk, loop), strict=True)
        branch(behind, [now.get(one, one) for one in left])


def _behind_turn(digits: Digits, walk: Walk, loop: Loop) -> list[ir.Value]:
    """The digits behind a turn in which none carries."""
    step = [*(constant(-1) for _ in digits[1:]), constant(loop.turn)]
    return advanced(digits, step, walk.lengths, stays=True, uniform=True)


def _after(item: ir.Value, block: ir.Block) -> ir.InsertionPoint:
    """Behind what computes a value, or at the beginning of the block that has it as an argument."""
    owner = producer(item)
    return ir.InsertionPoint.at_block_begin(block) if owner is None else ir.InsertionPoint.after(owner)


def _keep(digits: Sequence[ir.Value]) -> None:
    """Empty assembly that needs digits in scalar registers. LLVM computes them in front of it then, between matrix
    instructions, and not behind the branch on which alone they are used.
    """
    attributes = {
        "asm_string": string(""),
        "constraints": string(",".join("s" * len(digits))),
        "has_side_effects": ir.UnitAttr.get(),
    }
    create("llvm.inline_asm", [], digits, attributes)
