"""The fences of a steady loop are those that the unscheduled loop's schedule asks for.

What is judged says itself what it pins (`fences.py`); here the order is the reference's, so that attributes which are
taken away with the fences are missed too. Steady loops of one block are looked at. Where several loops of the program
have the stages of one, it may follow the schedule of any.
"""

from msgspec import Struct

from ckmlir.dialect.build import text_of
from ckmlir.dialect.loop import LOOP, schedule_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fence
from ckmlir.errors import counted
from ckmlir.mlir import ir
from ckmlir.passes.proof.fences import FENCES, PINNED, marks_before, missing_fence, unpinned
from ckmlir.passes.proof.finding import Finding, words_for
from ckmlir.passes.walk import operations

DRAINS = "ck.drains"
"""A function whose schedule waits for all copies; named here too: the proof shares no code with what schedules."""

MEMORY = frozenset({
    "ck.load_fragment", "ck.store_fragment", "ck.gather_fragment", "ck.scatter_fragment", "ck.lds_read", "ck.lds_write",
    "ck.copy_fragment",
})  # fmt: skip
"""The fragments that `fences memory` pins."""
PRODUCT = "ck.mfma"


class Asked(Struct, frozen=True):
    """What a loop of the unscheduled program asks of its steps."""

    schedule: Schedule
    stages: frozenset[str]
    fragments: int


def asks_to_drain(function: ir.Operation, reference: ir.Operation | None) -> bool:
    """Whether a schedule waits for all copies: by the unscheduled program, where there is one."""
    if reference is None:
        return DRAINS in function.attributes
    return any(schedule_of(op, check_stages=False).waits == "drain" for op in operations(reference) if op.name == LOOP)


def check_asked_fences(function: ir.Operation, reference: ir.Operation) -> list[Finding]:
    """Findings of the kind `fence`."""
    loops = [_asked(op) for op in operations(reference) if op.name == LOOP]
    found = []
    for block in function.regions[0]:
        ops = [view.operation for view in block]
        stages = {stage for op in ops if (stage := _stage(op))}
        if block not in ops[-1].successors or not stages:
            continue
        lacking = [_lacking(ops, one) for one in loops if stages <= one.stages]
        if lacking and all(lacking):
            found.append(next(one for one in lacking if one is not None))
    return found


def _asked(loop: ir.Operation) -> Asked:
    ops = [view.operation for view in loop.regions[0].blocks[0]]
    stages = frozenset(stage for op in ops if (stage := _stage(op)))
    return Asked(schedule_of(loop, check_stages=False), stages, _fragments(ops))


def _stage(op: ir.Operation) -> str:
    return text_of(op, "ck.stage") if "ck.stage" in op.attributes else ""


def _fragments(ops: list[ir.Operation]) -> int:
    """Memory accesses and matrix instructions of stages: their number says how many steps a block holds."""
    return sum(op.name in MEMORY or op.name == PRODUCT for op in ops if _stage(op))


def _lacking(ops: list[ir.Operation], asked: Asked) -> Finding | None:
    """The first fence that a steady loop lacks of what a schedule asks for."""
    schedule = asked.schedule
    if schedule.fences == "memory":
        pinned = {op for op in ops if _stage(op) and op.name in MEMORY and PINNED not in op.attributes}
        if found := unpinned(ops, pinned):
            return found[0]
    if schedule.fences == "products":
        for op in ops:
            bare = op.name == PRODUCT and _stage(op) and FENCES not in op.attributes
            if bare and not any(mark.startswith("fence") for mark in marks_before(ops, op)):
                return missing_fence(op, "before", None)
    named = sum(isinstance(item, Fence) for item in schedule.step)
    a_step = named + (schedule.fences == "clusters") + bool(schedule.mix)
    steps = max(1, _fragments(ops) // max(1, asked.fragments))
    there = sum(op.name == "ck.sched_barrier" for op in ops)
    if there >= a_step * steps:
        return None
    first = next(op for op in ops if _stage(op))
    message = (
        f"schedule '{schedule.name}' of the unscheduled loop asks for {counted(a_step, 'fence')} a step; {there} stand "
        f"in {counted(steps, 'step')} of the loop that begins with {words_for(first)}"
    )
    return Finding("fence", first, message)
