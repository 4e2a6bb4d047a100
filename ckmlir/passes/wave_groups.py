"""Groups of waves that run a loop out of phase, so that one multiplies while another moves data.

The barriers of the steady step cut it into phases. Every group enters the loop with one arrival at a barrier more than
the group before it, and so stays a phase behind it: all waves meet at every barrier, but each group at one of its own
place in the step. Where the loop ends the groups in front arrive once more each, so that all have arrived equally
often. What lies n phases apart in the step lies between n - 1 and n + 1 for two groups that are one phase apart; hence
accesses to LDS that depend on each other have to lie `groups` barriers apart, where one is enough in phase.
"""

from ckmlir.dialect import synchronization
from ckmlir.dialect.build import text_of
from ckmlir.dialect.loop import LOOP
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.lds_traffic import traffic_of
from ckmlir.passes.loop_body import Step, stage_named
from ckmlir.passes.walk import nested, waves_of


def part(groups: int) -> None:
    """Append what puts each group a barrier behind the one before it; all have met right before."""
    if groups > 1:
        synchronization.barrier()
    for group in range(1, groups):
        synchronization.group_barrier(groups, group, groups - 1)


def meet(groups: int) -> None:
    """Append what brings the groups that `part` has parted in phase again."""
    for group in range(1, groups):
        synchronization.group_barrier(groups, 0, group - 1)


def check_groups(loop: ir.Operation, step: Step, schedule: Schedule, slots: dict[ir.Value, list[ir.Value]]) -> None:
    """PassFailure where the loop cannot run in groups: too few phases, or LDS accesses too close for them.

    Args:
        loop: the loop; `step`: its steady step.
        slots: the rotating buffers of every LDS tensor that the body allocates.
    """
    groups = schedule.groups
    if groups == 1:
        return
    wanted = f"schedule '{schedule.name}' asks for {groups} groups of waves"
    waves = waves_of(_function(loop))
    if waves % groups:
        fail(loop, f"{wanted}; {waves} waves do not form groups of equal size")
    phases, count = _phases(step)
    if count < groups:
        fail(
            loop,
            f"{wanted}; barriers cut its step into {count or 1} phase{'s' if count > 1 else ''}, which leaves them in "
            f"phase: {groups} are the fewest, put barriers into the step",
        )
    for placed in step.placed:
        if placed.op.name == LOOP:
            fail(loop, f"{wanted}, and the loop holds another loop; only innermost loops can run out of phase")
        for op in (placed.op, *(nested(placed.op) if len(placed.op.regions) else ())):
            traffic = traffic_of(op)
            if traffic is not None and traffic.writes and traffic.tensor not in slots:
                fail(op, f"{wanted}, and this writes an LDS tensor from outside the loop; allocate it inside")
    for tensor, copies in slots.items():
        _check_tensor(tensor, len(copies), step, phases, count, schedule)


def _function(loop: ir.Operation) -> ir.Operation:
    parent = loop.parent
    while parent.operation.name != "func.func":
        parent = parent.operation.parent
    return parent.operation


def _phases(step: Step) -> tuple[dict[ir.Operation, int], int]:
    """The phase of every operation of the step, and the number of phases in it."""
    phases: dict[ir.Operation, int] = {}
    current = 0
    for placed in step.placed:
        current += sum(isinstance(marker, Barrier) for marker in placed.before)
        phases[placed.op] = current
    return phases, current + sum(isinstance(marker, Barrier) for marker in step.after)


def _check_tensor(
    tensor: ir.Value, slots: int, step: Step, phases: dict[ir.Operation, int], count: int, schedule: Schedule
) -> None:
    """The barriers from every write of a tensor to the reads of the same iteration, and on to the next write there."""
    ahead = {placed.op: placed.ahead for placed in step.placed}
    accesses = [(op, found.writes) for op in ahead if (found := traffic_of(op)) is not None and found.tensor == tensor]
    for write in (op for op, writes in accesses if writes):
        for read in (op for op, writes in accesses if not writes):
            early = ahead[write] - ahead[read]
            behind = early * count + phases[read] - phases[write]
            if behind < schedule.groups:
                _too_close(read, write, "reads", "write", behind, schedule)
            left = slots * count - behind
            if left < schedule.groups:
                more = -(-(schedule.groups + behind) // count)
                _too_close(write, read, "overwrites", "read", left, schedule, f", or {more} buffers")


def _too_close(
    op: ir.Operation, other: ir.Operation, does: str, what: str, barriers: int, schedule: Schedule, also: str = ""
) -> None:
    alloc = op.operands[0 if does == "reads" else 1].owner
    named = "name" in alloc.attributes
    tensor = f"LDS tensor '{text_of(alloc, 'name')}'" if named else "an LDS tensor"
    lie = f"{barriers} barrier lies" if barriers == 1 else f"{max(barriers, 0) or 'no'} barriers lie"
    fail(
        op,
        f"schedule '{schedule.name}': {stage_named(op)} {does} {tensor} while another group of waves may still "
        f"{what} it: {lie} between them in the step, {schedule.groups} groups need {schedule.groups}; "
        f"move stages or barriers{also}",
        [(f"the {what} is here", other)],
    )
