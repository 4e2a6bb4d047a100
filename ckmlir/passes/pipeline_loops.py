"""Apply each loop's schedule: check that it is legal, give LDS tensors their rotating buffers, and expand the loop.

How the expanded loop looks is described in `loop_expansion`, how the steady step is ordered in `step_order`. Branches
become blocks too (`branch_expansion`). One that a loop holds is a single operation of the loop's step: it runs ahead as
a whole, and what stands inside has no place of its own in an order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.build import integer, string, text_of
from ckmlir.dialect.control import BRANCH, STRUCTURED
from ckmlir.dialect.fragment_lds import BEGINS
from ckmlir.dialect.loop import LOOP, STAGE, schedule_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.mlir import ir
from ckmlir.passes.branch_expansion import expand_branch, expand_while, mark_branches
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.lds_traffic import tensor_name, traffic_of
from ckmlir.passes.loop_body import (
    DESCRIPTIONS,
    LOADS,
    MATRIX,
    READ,
    Placed,
    has_effect,
    holds_loop,
    read_once,
    stage_named,
    within,
)
from ckmlir.passes.loop_checks import (
    check_addresses,
    check_branches,
    check_kept,
    check_order,
    check_tensors,
    check_values,
    depends_on_contents,
    lds_accesses,
)
from ckmlir.passes.loop_expansion import Expansion
from ckmlir.passes.steady_turn import MOST_STEPS, steady_turn
from ckmlir.passes.step_order import order_step
from ckmlir.passes.walk import functions, named_target
from ckmlir.passes.wave_groups import check_groups
from ckmlir.targets import Target

IN_PIECES = "ck.in_pieces"
"""Set on functions with a schedule that takes arithmetic to pieces, which nobody is to join again."""

DRAINS = "ck.drains"
"""Set on functions with a schedule that waits for all copies to LDS where it waits for one."""
OCCUPANCY = "ck.occupancy"
"""Of functions with a schedule that says so: waves that a SIMD shall have registers for."""
APART = "ck.apart"
"""Set on LDS reads whose registers those of reads with another text must not use again."""


@dataclass(frozen=True)
class PipelineLoops(Pass):
    """Apply the schedules of loops: prologue, steady loop and rotating LDS buffers."""

    name: ClassVar[str] = "ck-pipeline-loops"
    of_control: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            for op in _structured(function):
                if op.name == LOOP:
                    pipeline(op, named_target(function))
                elif op.name == BRANCH:
                    expand_branch(op)
                else:
                    expand_while(op)


def _structured(function: ir.Operation) -> Iterator[ir.Operation]:
    """The loops and branches that no other one holds, each to be expanded before the next is asked for, which may have
    come out of it. What precedes one stays as it is.
    """
    done = 0
    while True:
        blocks = list(function.regions[0])[done:]
        places = ((number, view.operation) for number, block in enumerate(blocks) for view in block)
        found = next(((number, op) for number, op in places if op.name in STRUCTURED), None)
        if found is None:
            return
        done += found[0]
        yield found[1]


def pipeline(loop: ir.Operation, target: Target | None = None) -> None:
    """Apply one loop's schedule; PassFailure where it would change what the loop computes."""
    try:
        schedule = schedule_of(loop)
    except ValueError as problem:
        fail(loop, str(problem))
    if schedule.elements:
        _function_of(loop).attributes[IN_PIECES] = ir.UnitAttr.get()
    if schedule.waits == "drain":
        _function_of(loop).attributes[DRAINS] = ir.UnitAttr.get()
    if schedule.occupancy:
        _function_of(loop).attributes[OCCUPANCY] = integer(schedule.occupancy)
    _describe_for_each_user(loop.regions[0].blocks[0])
    with read_once():
        expansion = _checked(loop, schedule, target)
    expansion.run()


def _checked(loop: ir.Operation, schedule: Schedule, target: Target | None) -> Expansion:
    """What a loop becomes under its schedule, which may do that; PassFailure where it may not."""
    body = [op.operation for op in loop.regions[0].blocks[0].operations][:-1]
    try:
        step = order_step(body, schedule, target)
    except ValueError as problem:
        fail(loop, str(problem))
    steps = step.placed
    innermost = not holds_loop(loop)
    if not innermost and (any(placed.ahead for placed in steps) or schedule.buffers > 1):
        fail(loop, f"schedule '{schedule.name}' pipelines a loop that holds another loop; only innermost loops can be")
    check_branches(body, schedule)
    check_tensors(loop, body, schedule, innermost=innermost)
    check_values(steps, schedule)
    check_addresses(steps, schedule)
    check_kept(body, steps, schedule)
    _mark_beginnings(steps)
    if innermost:
        mark_branches(loop)
    slots: dict[ir.Value, list[ir.Value]] = {}
    for op in body:
        if op.name == "ck.lds_alloc":
            slots[op.results[0]] = _allocate(loop, op, _slot_count(op, steps, schedule))
    check_groups(loop, step, schedule, slots)
    _mark_apart(body, schedule)
    unrolled = schedule.slots == "unrolled"
    rotating = [schedule.unroll, *(len(copies) for copies in slots.values() if unrolled)]
    sets = _register_sets(steps).values()
    unroll = steady_turn(rotating, sets)
    if unroll > MOST_STEPS:
        turns = ", ".join(map(str, sorted({one for one in (*rotating, *sets) if one > 1})))
        fail(
            loop,
            f"schedule '{schedule.name}' needs {unroll} steps in its steady loop, so that buffers and registers rotate "
            f"without copies (what rotates takes {turns} turns); at most {MOST_STEPS} make sense, choose numbers that "
            "divide each other",
        )
    return Expansion(loop, step, schedule, slots, unroll, innermost=innermost)


def _function_of(op: ir.Operation) -> ir.Operation:
    home = op.parent.operation
    while home.name != "func.func":
        home = home.parent.operation
    return home


def _mark_apart(body: list[ir.Operation], schedule: Schedule) -> None:
    """Say of reads from which tensor they are, where the schedule wants other registers for those of another."""
    for op in body:
        if op.name == READ and tensor_name(op) in schedule.apart:
            op.attributes[APART] = string(tensor_name(op))


def _mark_beginnings(steps: list[Placed]) -> None:
    """Where the step has another order than the program, a value of an LDS tensor begins with another operation: with
    the one that runs first of those that fill it.

    No earlier value of the tensor's slot is needed there any more, which `_slot_count` checks.
    """
    fills: dict[ir.Value, list[Placed]] = {}
    for placed in steps:
        traffic = traffic_of(placed.op)
        if traffic is not None and traffic.writes:
            fills.setdefault(traffic.tensor, []).append(placed)
    for filling in fills.values():
        beginnings = [placed.op for placed in filling if BEGINS in placed.op.attributes]
        for op in beginnings:
            del op.attributes[BEGINS]
        if len(beginnings) == 1:  # of several values it is not known which operations fill which
            first = max(filling, key=lambda placed: placed.ahead)  # the first of those furthest ahead
            first.op.attributes[BEGINS] = ir.UnitAttr.get()


def _describe_for_each_user(block: ir.Block) -> None:
    """Give every user of a view or window its own: users may run different iterations, and no such value can travel."""
    for op_view in reversed(list(block.operations)):
        op = op_view.operation
        if op.name in DESCRIPTIONS:
            for use in list(op.results[0].uses)[1:]:
                user = use.owner.operation
                with ir.InsertionPoint(user):
                    user.operands[use.operand_number] = op.clone().results[0]


def _register_sets(steps: list[Placed]) -> dict[ir.Operation, int]:
    """For loads and LDS reads how many iterations' results are alive at once: so many sets of registers take turns.

    A result that is used n steps later needs n sets where its last user comes before the next load in the step, else
    one more.
    """
    position = {placed.op: number for number, placed in enumerate(steps)}
    ahead = {placed.op: placed.ahead for placed in steps}
    sets = dict.fromkeys((op for op in position if any(one.name in (*LOADS, READ) for one in within(op))), 1)
    for load in sets:
        pending, seen = [load], {load}
        while pending:
            for use in (use for result in pending.pop().results for use in result.uses):
                user = _in_step(use.owner.operation, ahead)
                if user is not None and user not in seen:
                    seen.add(user)
                    late = ahead[load] - ahead[user]
                    sets[load] = max(sets[load], late + (position[user] > position[load]))
                    if not has_effect(user) and user.name != MATRIX and ahead[user] == ahead[load]:
                        pending.append(user)
    return sets


def _in_step(op: ir.Operation, ahead: dict[ir.Operation, int]) -> ir.Operation | None:
    """The operation of the step that an operation is, or stands in; None: it is the body's end, or outside."""
    home: ir.Operation | None = op
    while home is not None and home not in ahead:
        home = None if home.parent is None or home.name == "func.func" else home.parent.operation
    return home


def _slot_count(alloc: ir.Operation, steps: list[Placed], schedule: Schedule) -> int:
    """Rotating slots of an LDS tensor, checked against the iterations that are in flight.

    A tensor that is written and read in the same iteration of the step needs one, unless groups of waves are in
    different iterations; else it gets the schedule's number.
    """
    position = {placed.op: number for number, placed in enumerate(steps)}
    ahead = {placed.op: placed.ahead for placed in steps}
    writes, reads = lds_accesses(alloc.results[0], [placed.op for placed in steps])
    name = text_of(alloc, "name") if "name" in alloc.attributes else ""
    together = len({ahead[op] for op in (*writes, *reads)}) <= 1 and schedule.groups == 1
    slots = 1 if together else schedule.buffers_of(name)
    check_order(alloc, writes, reads, steps, schedule)
    for write in writes:
        for read in (*reads, *filter(depends_on_contents, writes)):
            early = ahead[write] - ahead[read]
            if early > slots or (early == slots and position[write] < position[read]):
                fail(
                    write,
                    f"schedule '{schedule.name}' overwrites an LDS tensor that is "
                    f"still to be read: {stage_named(write)} writes {early} "
                    f"iterations ahead of the read into {slots} buffer{'s' if slots > 1 else ''}; "
                    f"{early + 1} are enough in any order",
                    [("the read is here", read)],
                )
    return slots


def _allocate(loop: ir.Operation, alloc: ir.Operation, count: int) -> list[ir.Value]:
    """The slots of an LDS tensor, outside the loop."""
    copies = []
    for _ in range(count):
        with ir.InsertionPoint(loop):
            copy = alloc.clone()
        if STAGE in copy.attributes:
            del copy.attributes[STAGE]
        copies.append(copy.results[0])
    return copies
