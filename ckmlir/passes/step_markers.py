"""What stands between the fragments of a steady step: fences between clusters, priorities, and the mix."""

from math import ceil

from msgspec.structs import replace

from ckmlir.dialect import synchronization
from ckmlir.dialect.build import text_of
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier, Fence, Priority, Wait
from ckmlir.dialect.schedule_problems import HOT_LOOP
from ckmlir.mlir import ir
from ckmlir.passes.loop_body import LOADS, MATRIX, READ, Group, Marker, Placed, Step, sources_of, stage_of
from ckmlir.passes.vectors import length_of
from ckmlir.targets import Target

MASKS = {"mfma": "mfma_wmma"}
"""Kinds of instructions whose sched_group_barrier mask has another name."""


def create_marker(marker: Marker) -> None:
    """A fence, priority, barrier or group as an operation."""
    if isinstance(marker, Fence):
        synchronization.sched_barrier(marker.mask)
    elif isinstance(marker, Priority):
        synchronization.priority(marker.level)
    elif isinstance(marker, Group):
        synchronization.sched_group_barrier(marker.kind, marker.count)
    elif isinstance(marker, Barrier):
        synchronization.barrier()
    elif isinstance(marker, Wait):
        synchronization.wait(vector_memory=marker.count)


def add_markers(step: Step, schedule: Schedule, target: Target | None) -> Step:
    """The step with the fences between clusters, priorities and mix that its schedule asks for."""
    step = _prioritised(step, schedule)
    if schedule.fences == "clusters":
        step = Step(_fenced(step.placed), step.after)
    if schedule.fences == "products":
        fenced = [replace(one, before=(*one.before, Fence())) if one.op.name == MATRIX else one for one in step.placed]
        step = Step(fenced, step.after)
    if schedule.mix:
        step = Step(step.placed, (*step.after, *_mix([item.op for item in step.placed], schedule, target), Fence()))
    return step


def _prioritised(step: Step, schedule: Schedule) -> Step:
    """In every cluster the priority of a stage from its first operation there to its last."""
    levels = dict(schedule.priority)
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for number, item in enumerate(step.placed):
        level = levels.get(stage_of(item.op) or "", 0)
        if level:
            first, _ = spans.get((item.cluster, level), (number, number))
            spans[item.cluster, level] = (first, number)
    changes: dict[int, int] = {}
    for (_, level), (first, last) in sorted(spans.items(), key=lambda span: span[1]):
        changes[first] = level
        changes.setdefault(last + 1, 0)
    placed, current = [], 0
    for number, item in enumerate(step.placed):
        level = changes.get(number, current)
        placed.append(item if level == current else replace(item, before=_changed(item.before, current, level)))
        current = level
    return Step(placed, _changed(step.after, current, 0) if current else step.after)


def _changed(markers: tuple[Marker, ...], current: int, level: int) -> tuple[Marker, ...]:
    """Markers with a change of priority: raised behind them, lowered before, so that no wave has it at a barrier."""
    return (*markers, Priority(level)) if level > current else (Priority(level), *markers)


def _fenced(placed: list[Placed]) -> list[Placed]:
    """A fence wherever a cluster begins, in front of what stands there already and behind it."""
    cluster = -1
    found = []
    for item in placed:
        if item.cluster != cluster:
            item = replace(item, before=(Fence(), *item.before, Fence()) if item.before else (Fence(),))
            cluster = item.cluster
        found.append(item)
    return found


# -- mixes


def _mix(ops: list[ir.Operation], schedule: Schedule, target: Target | None) -> list[Group]:
    """The schedule's round, repeated until the step's matrix instructions are used up; or the computed mix."""
    matrix = sum(op.name == MATRIX for op in ops)
    if (HOT_LOOP, 0) in schedule.mix:
        if target is None:
            raise ValueError(f"schedule '{schedule.name}' asks for mix hot_loop, which depends on the chip; name one")
        return hot_loop(ops, target)
    groups = [Group(MASKS.get(kind, kind), count) for kind, count in schedule.mix]
    in_round = sum(count for kind, count in schedule.mix if kind == "mfma")
    rounds: int = ceil(matrix / in_round)
    return groups * rounds


def hot_loop(ops: list[ir.Operation], target: Target) -> list[Group]:
    """The mix that hides LDS accesses and loads behind matrix instructions, from how long each takes.

    A matrix instruction keeps its unit busy for its cycles, 4 of which issue it; LDS reads that are issued meanwhile
    (8 cycles for 16 bytes a lane, else 4; half of the time is the other waves') cost nothing. So many reads as fit go
    with each matrix instruction at the end of the step. The matrix instructions before are shared out among the loads:
    for each load first the LDS writes of what it replaces, one with a matrix instruction each, then the load itself,
    then the rest of its share.

    Source: the rates of CK Tile's hot-loop scheduler (gemm pipelines, compv3).
    """
    matrix = [op for op in ops if op.name == MATRIX]
    reads = [op for op in ops if op.name == READ]
    loads = [op for op in ops if op.name in LOADS or op.name == "ck.copy_fragment"]
    writes = [op for op in ops if op.name == "ck.lds_write"]
    if not matrix:
        return []
    cycles = target.mfma_cycles[text_of(matrix[0], "instruction")]
    issue = 8 if any(_bytes(op) >= 16 for op in reads) else 4
    rate = max(1, ceil((cycles - 4) / (2 * issue)))
    reading = min(len(matrix), ceil(len(reads) / rate))
    groups = _loading(loads, writes, len(matrix) - reading)
    for number in range(reading):
        count = min(rate, len(reads) - number * rate)
        groups += [Group("ds_read", count), Group("mfma_wmma", 1)]
    return groups


def _loading(loads: list[ir.Operation], writes: list[ir.Operation], matrix: int) -> list[Group]:
    """Stage one of the hot loop: `matrix` matrix instructions shared out among loads and LDS writes."""
    groups: list[Group] = []
    left = list(writes)
    for number, load in enumerate(loads):
        share = matrix * (number + 1) // len(loads) - matrix * number // len(loads)
        own = [op for op in left if load in sources_of(op, LOADS, operands=1)]
        left = [op for op in left if op not in own]
        for _ in own:
            groups += [Group("ds_write", 1), *([Group("mfma_wmma", 1)] if share > 0 else [])]
            share -= 1
        groups.append(Group("vmem_read" if load.name in LOADS else "ldsdma", 1))
        if share > 0:
            groups.append(Group("mfma_wmma", share))
    if left:
        groups.append(Group("ds_write", len(left)))
    if not loads and matrix:
        groups.append(Group("mfma_wmma", matrix))
    return groups


def _bytes(op: ir.Operation) -> int:
    """What a lane reads."""
    vector = op.results[0].type
    return length_of(op.results[0]) * bits(vector.element_type) // 8
