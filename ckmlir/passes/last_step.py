"""The last step of a loop taken apart, so that stores leave while most of its products are still to come.

The step becomes blocks in parts, each followed by what becomes of its results. What follows the loop, up to the first
operation that meets LDS or branches, is dealt out to the parts by the results that it uses, in its order; what the step
computes goes where it is first needed. Products and stores have blocks of their own: accumulators leave their registers
where nothing is multiplied (`accumulator_form`).
"""

from collections.abc import Iterable, Mapping, Sequence

from ckmlir.dialect.build import producer
from ckmlir.mlir import ir
from ckmlir.passes.branch_expansion import branch
from ckmlir.passes.loop_body import MEMORY, READ, STORES
from ckmlir.passes.walk import move_all

Results = Mapping[int, int]
"""By the number of a result of the loop, where it is used: its part."""


def take_apart(last: ir.Block, behind: ir.Block, parts: int) -> None:
    """Take a step apart, in at most so many parts. One that does more than read LDS and compute, or branches, is left
    as it is.

    Args:
        last: the block of the step, which branches to `behind` and nowhere else.
        behind: the block that takes the step's results as its arguments; no other branches to it.
    """
    *step, end = (view.operation for view in last.operations)
    tail, results, where = _movable(behind), list(end.operands), end.location
    of_results = _parts_of_results(tail, behind, parts)
    if not of_results or any(len(op.regions) or (op.name in MEMORY and op.name != READ) for op in step):
        return
    of_tail = _parts_of_tail(tail, behind, of_results)
    of_step = _parts_of_step(step, results, of_results)
    end.erase()
    block = last
    for number in range(max(of_results.values())):
        stores = _block((op for op, part in zip(tail, of_tail, strict=True) if part == number), behind)
        used = _take_arguments(stores, behind)
        following = _block((op for op, part in zip(step, of_step, strict=True) if part > number), behind)
        with where:
            with ir.InsertionPoint(block):
                branch(stores, [results[one] for one in used])
            with ir.InsertionPoint(stores):
                branch(following, [])
        block = following
    with ir.InsertionPoint(block), where:
        branch(behind, results)


def _movable(block: ir.Block) -> list[ir.Operation]:
    """The operations of a block in front of the first that has an effect other than a store, and of its end."""
    found = []
    for op in [view.operation for view in block.operations][:-1]:
        if len(op.regions) or (op.name in MEMORY and op.name not in STORES):
            break
        found.append(op)
    return found


def _parts_of_results(tail: list[ir.Operation], behind: ir.Block, parts: int) -> Results:
    """In the order in which the tail first uses them."""
    used = dict.fromkeys(number for op in tail for number in _arguments(op, behind))
    size = -(-len(used) // parts)
    return {number: place // size for place, number in enumerate(used)}


def _arguments(op: ir.Operation, block: ir.Block) -> list[int]:
    """The numbers of a block's arguments among the operands of an operation."""
    given = (ir.BlockArgument(one) for one in op.operands if producer(one) is None)
    return [one.arg_number for one in given if one.owner == block]


def _parts_of_tail(tail: list[ir.Operation], behind: ir.Block, of_results: Results) -> list[int]:
    """The part of each operation of the tail: the last one of what it uses, and of stores before it."""
    found: dict[ir.Operation, int] = {}
    stored = 0
    for op in tail:
        uses = [of_results[number] for number in _arguments(op, behind)]
        uses += [found[owner] for owner in map(producer, op.operands) if owner in found]
        found[op] = max(uses, default=0)
        if op.name in STORES:
            found[op] = stored = max(found[op], stored)
    return list(found.values())


def _parts_of_step(step: list[ir.Operation], results: Sequence[ir.Value], of_results: Results) -> list[int]:
    """The part of each operation of the step: the first that needs it; the first of all where none does."""
    last = max(of_results.values(), default=0)
    found: dict[ir.Operation | None, int] = {}
    for number, item in enumerate(results):
        _note(found, item, of_results.get(number, last))
    for op in reversed(step):
        part = found.setdefault(op, 0)
        for operand in op.operands:
            _note(found, operand, part)
    return [found[op] for op in step]


def _note(found: dict[ir.Operation | None, int], item: ir.Value, part: int) -> None:
    """That a part needs a value."""
    owner = producer(item)
    found[owner] = min(found.get(owner, part), part)


def _block(ops: Iterable[ir.Operation], before: ir.Block) -> ir.Block:
    """A block of these operations."""
    block = before.create_before()
    move_all(list(ops), block)
    return block


def _take_arguments(block: ir.Block, behind: ir.Block) -> list[int]:
    """Give a block arguments of its own for those of another that its operations use; their numbers there."""
    own: dict[int, ir.Value] = {}
    for op in (view.operation for view in block.operations):
        for number in _arguments(op, behind):
            if number not in own:
                own[number] = block.add_argument(behind.arguments[number].type, op.location)
            op.replace_uses_of_with(behind.arguments[number], own[number])
    return list(own)
