"""Apply each loop's schedule: check that it is legal, give LDS tensors their rotating buffers, and expand the loop.

How the expanded loop looks is described in `loop_expansion`, how the steady step is ordered in `step_order`.
"""

from dataclasses import dataclass
from math import lcm
from typing import ClassVar

from ckmlir.dialect.build import producer, string, text_of
from ckmlir.dialect.loop import LOOP, STAGE, schedule_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.lds_traffic import tensor_name, traffic_of
from ckmlir.passes.loop_body import (
    DESCRIPTIONS,
    LOADS,
    MATRIX,
    MEMORY,
    READ,
    Placed,
    handed_on,
    operands_of,
    source_of,
    sources_of,
    stage_of,
)
from ckmlir.passes.loop_expansion import Expansion
from ckmlir.passes.step_order import order_step
from ckmlir.passes.walk import functions, named_target, nested
from ckmlir.passes.wave_groups import check_groups
from ckmlir.targets import Target

REPEATABLE = frozenset({
    "ck.load_fragment", "ck.gather_fragment", "ck.lds_read", "ck.lds_write", "ck.copy_fragment", "ck.lds_alloc",
})  # fmt: skip
"""Memory operations that may run for an iteration a second time."""

MOST_STEPS = 16
"""Steps of a steady loop: more would not fit the instruction cache, 64 KB for two compute units (CDNA3 ISA, 2.1)."""

APART = "ck.apart"
"""Set on LDS reads whose registers those of reads with another text must not use again."""


@dataclass(frozen=True)
class PipelineLoops(Pass):
    """Apply the schedules of loops: prologue, steady loop and rotating LDS buffers."""

    name: ClassVar[str] = "ck-pipeline-loops"

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            while (loop := _first_loop(function)) is not None:
                pipeline(loop, named_target(function))


def _first_loop(function: ir.Operation) -> ir.Operation | None:
    for block in function.regions[0]:
        for op in block:
            if op.operation.name == LOOP:
                return op.operation
    return None


def pipeline(loop: ir.Operation, target: Target | None = None) -> None:
    """Apply one loop's schedule; PassFailure where it would change what the loop computes."""
    try:
        schedule = schedule_of(loop)
    except ValueError as problem:
        fail(loop, str(problem))
    _describe_for_each_user(loop.regions[0].blocks[0])
    body = [op.operation for op in loop.regions[0].blocks[0].operations][:-1]
    try:
        step = order_step(body, schedule, target)
    except ValueError as problem:
        fail(loop, str(problem))
    steps = step.placed
    if any(op.name == LOOP for op in body) and (any(placed.ahead for placed in steps) or schedule.buffers > 1):
        fail(loop, f"schedule '{schedule.name}' pipelines a loop that holds another loop; only innermost loops can be")
    _check_tensors(loop, body, schedule)
    _check_values(steps, schedule)
    _check_kept(body, steps, schedule)
    slots: dict[ir.Value, list[ir.Value]] = {}
    for op in body:
        if op.name == "ck.lds_alloc":
            slots[op.results[0]] = _allocate(loop, op, _slot_count(op, steps, schedule))
    check_groups(loop, step, schedule, slots)
    _mark_apart(body, schedule)
    rotating = [*(len(copies) for copies in slots.values()), *_register_sets(steps).values()]
    unroll = lcm(schedule.unroll, *rotating)
    if unroll > MOST_STEPS:
        turns = ", ".join(map(str, sorted({one for one in (schedule.unroll, *rotating) if one > 1})))
        fail(
            loop,
            f"schedule '{schedule.name}' needs {unroll} steps in its steady loop, so that buffers and registers rotate "
            f"without copies (what rotates takes {turns} turns); at most {MOST_STEPS} make sense, choose numbers that "
            "divide each other",
        )
    Expansion(loop, step, schedule, slots, unroll).run()


def _check_tensors(loop: ir.Operation, body: list[ir.Operation], schedule: Schedule) -> None:
    """Tensors that the schedule names exist, and those that it wants copied directly are."""
    named = {text_of(op, "name"): op for op in body if op.name == "ck.lds_alloc" and "name" in op.attributes}
    for tensor in (*(name for name, _ in schedule.tensor_buffers), *schedule.apart):
        if tensor not in named:
            have = ", ".join(sorted(named)) or "none with a name"
            fail(loop, f"schedule '{schedule.name}' speaks of LDS tensor '{tensor}'; the loop has {have}")
    for op in body:
        if op.name == "ck.lds_write" and sources_of(op, LOADS, operands=1):
            name = tensor_name(op)
            path = schedule.path_of(name)
            if path != "through":
                fail(
                    op,
                    f"schedule '{schedule.name}' takes '{name}' {path}, but it comes through registers; "
                    "ck-choose-paths has to run on the tiles",
                )


def _mark_apart(body: list[ir.Operation], schedule: Schedule) -> None:
    """Say of reads from which tensor they are, where the schedule wants other registers for those of another."""
    for op in body:
        if op.name == READ and tensor_name(op) in schedule.apart:
            op.attributes[APART] = string(tensor_name(op))


def _describe_for_each_user(block: ir.Block) -> None:
    """Give every user of a view or window its own: users may run different iterations, and no such value can travel."""
    for op_view in reversed(list(block.operations)):
        op = op_view.operation
        if op.name in DESCRIPTIONS:
            for use in list(op.results[0].uses)[1:]:
                user = use.owner.operation
                with ir.InsertionPoint(user):
                    user.operands[use.operand_number] = op.clone().results[0]


def _check_values(steps: list[Placed], schedule: Schedule) -> None:
    """Every value is produced before it is used, and nothing that must happen once happens twice."""
    position = {placed.op: number for number, placed in enumerate(steps)}
    ahead = {placed.op: placed.ahead for placed in steps}
    if not steps:
        return
    block = steps[0].op.block
    handed = handed_on(block)
    for placed in steps:
        op = placed.op
        if op.name in MEMORY and op.name not in REPEATABLE and placed.ahead:
            fail(op, f"'{op.name}' in stage '{stage_of(op)}' cannot run ahead: its effect would happen twice")
        for operand in operands_of(op):
            value, iterations = source_of(operand, block, handed)
            source = producer(value)
            if source is not None and source.name == "ck.lds_alloc":
                continue  # allocations leave the loop
            if source is not None and source in position:
                early = ahead[source] + iterations - placed.ahead
                if early < 0 or (early == 0 and position[source] > position[op]):
                    cause = _cause(op, ahead, schedule)
                    fail(
                        cause,
                        f"schedule '{schedule.name}' runs this before what it "
                        f"uses (stage '{stage_of(cause)}' {placed.ahead} ahead, "
                        f"stage '{stage_of(source)}' {ahead[source]} ahead)",
                        [("the value is computed here", source)],
                    )
            elif iterations and value == block.arguments[0] and placed.ahead >= iterations:
                fail(
                    op,
                    f"schedule '{schedule.name}' runs this {placed.ahead} ahead, "
                    "before the loop hands on the index that it uses; compute that from the loop's own index",
                )


def _cause(op: ir.Operation, ahead: dict[ir.Operation, int], schedule: Schedule) -> ir.Operation:
    """The operation for whose sake a computation runs further ahead than its stage."""
    while op.name not in MEMORY and ahead[op] > schedule.ahead_of(stage_of(op) or ""):
        users = (use.owner.operation for result in op.results for use in result.uses)
        later = next((user for user in users if ahead.get(user) == ahead[op]), None)
        if later is None:
            break
        op = later
    return op


def _register_sets(steps: list[Placed]) -> dict[ir.Operation, int]:
    """For loads and LDS reads how many iterations' results are alive at once: so many sets of registers take turns.

    A result that is used n steps later needs n sets where its last user comes before the next load in the step, else
    one more.
    """
    position = {placed.op: number for number, placed in enumerate(steps)}
    ahead = {placed.op: placed.ahead for placed in steps}
    sets = dict.fromkeys((op for op in position if op.name in LOADS or op.name == READ), 1)
    for load in sets:
        pending, seen = [load], {load}
        while pending:
            for use in (use for result in pending.pop().results for use in result.uses):
                user = use.owner.operation
                if user in ahead and user not in seen:
                    seen.add(user)
                    late = ahead[load] - ahead[user]
                    sets[load] = max(sets[load], late + (position[user] > position[load]))
                    if user.name not in MEMORY and user.name != MATRIX and ahead[user] == ahead[load]:
                        pending.append(user)
    return sets


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
    for write in writes:
        for read in reads:
            early = ahead[write] - ahead[read]
            if early < 0 or (early == 0 and position[write] > position[read]):
                fail(
                    read,
                    f"schedule '{schedule.name}' reads an LDS tensor before it is written",
                    [("the write is here", write)],
                )
            if early > slots or (early == slots and position[write] < position[read]):
                fail(
                    write,
                    f"schedule '{schedule.name}' overwrites an LDS tensor that is "
                    f"still to be read: stage '{stage_of(write)}' writes {early} "
                    f"iterations ahead of the read into {slots} buffer{'s' if slots > 1 else ''}; "
                    f"{early + 1} are enough in any order",
                    [("the read is here", read)],
                )
    return slots


def lds_accesses(tensor: ir.Value, body: list[ir.Operation]) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The operations of a loop body that write an LDS tensor, and that read it, themselves or in a loop inside."""
    writes: list[ir.Operation] = []
    reads: list[ir.Operation] = []
    for use in tensor.uses:
        op = home = use.owner.operation
        while home.block != body[0].block and home.parent is not None and home.parent.name != "func.func":
            home = home.parent.operation
        traffic = traffic_of(op)
        if home.block == body[0].block and traffic is not None:
            (writes if traffic.writes else reads).append(home)
    return writes, reads


def _check_kept(body: list[ir.Operation], steps: list[Placed], schedule: Schedule) -> None:
    """LDS tensors from outside the loop have one buffer: the order of their accesses stays, over iterations too."""
    every = [one for op in body for one in (op, *(nested(op) if len(op.regions) else ()))]
    inside = set(every)
    tensors = [traffic.tensor for op in every if (traffic := traffic_of(op)) is not None]
    outside = [tensor for tensor in dict.fromkeys(tensors) if producer(tensor) not in inside]
    now = {placed.op: (-placed.ahead, number) for number, placed in enumerate(steps)}
    for tensor in outside:
        writes, reads = lds_accesses(tensor, body)
        for write in writes:
            for other in (*writes, *reads):
                if write == other:
                    continue
                kept = (body.index(write) < body.index(other)) == (now[write] < now[other])
                if not kept or now[write][0] != now[other][0]:
                    fail(
                        write,
                        f"schedule '{schedule.name}' moves this past another access to the same LDS tensor, which is "
                        "allocated outside the loop and so has one buffer; allocate it inside",
                        [("the other access is here", other)],
                    )


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
