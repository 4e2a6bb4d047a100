"""Uniform control beside loops of stages: branches (`scf.if`) and loops with a condition (`scf.while`).

All waves of a workgroup take the same way, so a condition is a scalar of the workgroup: it follows from kernel
arguments, the workgroup's position, what memory holds at a place that is the same for all, and `ck.uniform`. What
leaves a branch or goes round a loop are scalars, pointers and tiles.
"""

from collections.abc import Iterator, Sequence

from ckmlir.dialect.build import attributes_of, create, integer_of, producer
from ckmlir.dialect.loop import LOOP
from ckmlir.mlir import ir

BRANCH = "scf.if"
WHILE = "scf.while"
YIELD = "scf.yield"
CONDITION = "scf.condition"
"""Ends the part of a `scf.while` that decides: whether to go on, and what the body or the result is then."""
LOOPS = frozenset({LOOP, WHILE})
STRUCTURED = LOOPS | {BRANCH}
"""Operations whose regions are parts of the tile program."""


def append_branch(condition: ir.Value) -> ir.Operation:
    """Append an empty `scf.if` without results; its first arm's block still needs operations and an end, and another
    arm its block.
    """
    operation = create(BRANCH, [], [condition], regions=2)
    operation.regions[0].blocks.append()
    return operation


def append_while(initial: Sequence[ir.Value]) -> ir.Operation:
    """Append an empty `scf.while` without results; the first block decides, the second is the body. Both take the
    carried values, and still need operations and ends.
    """
    types = [value.type for value in initial]
    operation = create(WHILE, [], initial, regions=2)
    for region in operation.regions:
        region.blocks.append(*types, arg_locs=[operation.location] * len(types))
    return operation


def end_condition(condition: ir.Value, values: Sequence[ir.Value]) -> None:
    """End the deciding block of a `scf.while`: what the body takes, or the results are."""
    create(CONDITION, [], [condition, *values])


def with_results(operation: ir.Operation, types: Sequence[ir.Type]) -> ir.Operation:
    """The operation with results of these types in its place, its blocks included; the operation itself is erased.

    The types of results are known when its regions have been built, but an operation gets them when it is made. Blocks
    and arguments that were asked for before are of no use afterwards: the bindings take them for erased.
    """
    with ir.InsertionPoint(operation), operation.location:
        made = ir.Operation.create(
            operation.name, results=list(types), operands=list(operation.operands),
            attributes=attributes_of(operation), regions=len(operation.regions),
        )  # fmt: skip
    for old, new in zip(operation.regions, made.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)
    operation.erase()
    return made


def end_of(block: ir.Block) -> ir.Operation:
    """The operation that ends a block, found without counting those before it; of a block that has no end yet the last
    one.
    """
    try:
        end: ir.Operation = ir.InsertionPoint.at_block_terminator(block).ref_operation
    except ValueError:
        end = block.operations[-1].operation
    return end


def same_values(operation: ir.Operation) -> Iterator[list[ir.Value]]:
    """For a loop or branch the values that are one under several names: what it takes, hands on, and gives."""
    blocks = [next(iter(region.blocks)) for region in operation.regions if len(region.blocks)]
    operands, results = list(operation.operands), list(operation.results)
    if operation.name == LOOP:
        rows = zip(operands[3:], list(blocks[0].arguments)[1:], end_of(blocks[0]).operands, results, strict=True)
        yield from map(list, rows)
    elif operation.name == BRANCH and results:
        yield from map(list, zip(results, *(end_of(block).operands for block in blocks), strict=True))
    elif operation.name == WHILE:
        deciding, body = blocks
        yield from map(list, zip(operands, deciding.arguments, end_of(body).operands, strict=True))
        forwarded = list(end_of(deciding).operands)[1:]
        yield from map(list, zip(forwarded, body.arguments, results, strict=True))


def surely_runs(lower: ir.Value, upper: ir.Value) -> bool:
    """Whether a loop has an iteration whatever the kernel is given: it ends at a maximum with a larger constant."""
    begin, end = _number_of(lower), producer(upper)
    if begin is None or end is None or end.name != "arith.maxsi":
        return False
    return any(least is not None and least > begin for least in map(_number_of, end.operands))


def _number_of(item: ir.Value) -> int | None:
    op = producer(item)
    return integer_of(op, "value") if op is not None and op.name == "arith.constant" else None
