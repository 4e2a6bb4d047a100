"""Branches, and loops with a condition, as a control-flow graph.

A branch becomes a block for each arm and one where they meet, whose arguments are its results. A loop with a condition
becomes the block that decides, which its body goes back to, and the one behind it.
"""

from collections.abc import Collection, Iterable

from ckmlir.dialect.build import producer
from ckmlir.dialect.control import BRANCH, end_of
from ckmlir.dialect.loop import ADVANCES
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.loop_body import holds_loop
from ckmlir.passes.walk import move_rest, nested

PER_THREAD = frozenset({"ck.thread_coordinate", "ck.inside_fragment", "ck.offset_fragment", "vector.extract"})
"""Scalars that differ between threads: their own place, and elements of their registers."""


def expand_branch(op: ir.Operation) -> None:
    """Replace a `scf.if` in a block of a function.

    Raises:
        PassFailure: its condition differs between threads.
    """
    _check_uniform(op, op.operands[0])
    with op.location:
        meeting = _block_behind(op)
        yes, no = (_arm(region, meeting) for region in op.regions)
        with ir.InsertionPoint(op):
            cond_branch(op.operands[0], *yes, *no)
        home, advances = op.block, ADVANCES in op.attributes
        _replace(op, meeting)
        if advances:
            mark_advancing([home, *(to for to, _ in (yes, no) if to != meeting)], {meeting})


def _arm(region: ir.Region, meeting: ir.Block) -> tuple[ir.Block, list[ir.Value]]:
    """Where an arm goes, and what it hands on there: to a block with its operations, or where the arms meet."""
    if not len(region.blocks):
        return meeting, []
    end = end_of(region.blocks[0])
    given = list(end.operands)
    if len(region.blocks[0].operations) == 1:
        return meeting, given
    block = meeting.create_before()
    _move(region.blocks[0], block)
    with ir.InsertionPoint(end), end.location:
        branch(meeting, given)
    end.erase()
    return block, []


def expand_while(op: ir.Operation) -> None:
    """Replace a `scf.while` in a block of a function.

    Raises:
        PassFailure: its condition differs between threads.
    """
    deciding, body = (region.blocks[0] for region in op.regions)
    _check_uniform(op, end_of(deciding).operands[0])
    with op.location:
        innermost = not holds_loop(op)
        if innermost:
            mark_branches(op)
        behind, home = _block_behind(op), op.block
        start, round_ = _like(deciding, behind), _like(body, behind)
        with ir.InsertionPoint(op):
            branch(start, list(op.operands))
        end = _move(deciding, start)
        condition, *forwarded = end.operands
        with ir.InsertionPoint(end), end.location:
            cond_branch(condition, round_, forwarded, behind, forwarded)
        end.erase()
        end = _move(body, round_)
        with ir.InsertionPoint(end), end.location:
            branch(start, list(end.operands))
        end.erase()
        _replace(op, behind)
        if innermost:
            mark_advancing([home, start, round_], {start, round_})


def _block_behind(op: ir.Operation) -> ir.Block:
    """A block that takes an operation's results and goes on with what follows it."""
    types = [result.type for result in op.results]
    block = op.block.create_after(*types, arg_locs=[op.location] * len(types))
    move_rest(op, block)
    return block


def _like(block: ir.Block, before: ir.Block) -> ir.Block:
    """An empty block with the arguments of another."""
    types = [argument.type for argument in block.arguments]
    return before.create_before(*types, arg_locs=[argument.location for argument in block.arguments])


def _move(old: ir.Block, new: ir.Block) -> ir.Operation:
    """Move a block's operations to an empty one; its end."""
    first = old.operations[0].operation
    for argument, other in zip(old.arguments, new.arguments, strict=True):
        argument.replace_all_uses_with(other)
    move_rest(first, new, itself=True)
    return end_of(new)


def _replace(op: ir.Operation, meeting: ir.Block) -> None:
    for result, argument in zip(op.results, meeting.arguments, strict=True):
        result.replace_all_uses_with(argument)
    op.erase()


def _check_uniform(op: ir.Operation, condition: ir.Value) -> None:
    """All waves take one way: PassFailure where a condition comes from what differs between threads."""
    waiting, seen = [condition], {condition}
    while waiting:
        owner = producer(waiting.pop())
        if owner is None or owner.name == "ck.first_lane":
            continue
        if owner.name in PER_THREAD:
            kind = "branch" if op.name == BRANCH else "loop"
            fail(
                op,
                f"the condition of this {kind} differs between threads, and a workgroup takes one way; choose with "
                "arith.select, or make it uniform with ck.uniform",
                [("it depends on this", owner)],
            )
        waiting += [operand for operand in owner.operands if operand not in seen]
        seen.update(owner.operands)


def mark_advancing(blocks: Iterable[ir.Block], steps: Collection[ir.Block]) -> None:
    """Say of the branches that end some blocks which of them lead to a step of an innermost loop (`ADVANCES`)."""
    for block in blocks:
        end = end_of(block)
        numbers = [number for number, successor in enumerate(end.successors) if successor in steps]
        if numbers:
            end.attributes[ADVANCES] = ir.DenseI32ArrayAttr.get(numbers)


def mark_branches(op: ir.Operation) -> None:
    """Say of the branches inside an innermost loop that what they give changes with its steps."""
    for inner in nested(op):
        if inner.name == BRANCH:
            inner.attributes[ADVANCES] = ir.UnitAttr.get()


def branch(target: ir.Block, arguments: list[ir.Value]) -> None:
    """Append a branch to a block."""
    ir.Operation.create("cf.br", operands=arguments, successors=[target])


def cond_branch(
    condition: ir.Value, yes: ir.Block, yes_arguments: list[ir.Value], no: ir.Block, no_arguments: list[ir.Value]
) -> None:
    """Append a branch to one of two blocks."""
    sizes = ir.DenseI32ArrayAttr.get([1, len(yes_arguments), len(no_arguments)])
    ir.Operation.create(
        "cf.cond_br",
        operands=[condition, *yes_arguments, *no_arguments],
        successors=[yes, no],
        attributes={"operandSegmentSizes": sizes},
    )
