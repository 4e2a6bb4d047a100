"""The steady step of a scheduled loop: how far ahead every operation runs, and in which order they stand.

Fragments that the schedule lists by number run as far ahead as it says: an order may have a sum of one iteration before
the sum of the next that goes on from it, in the same step. Everything else that has no effect of its own (slices of
vectors, windows, constants, stages as a whole) runs as far ahead as its earliest user, so that what crosses from one
iteration to the next is what memory operations produced, in the registers where they produced it.

Orders that are computed are in `step_policies`; fences, priorities and mixes are added by `step_markers`.
"""

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments
from ckmlir.mlir import ir
from ckmlir.passes.lds_traffic import tensor_name
from ckmlir.passes.loop_body import (
    DESCRIPTIONS,
    FILLS,
    MATRIX,
    Marker,
    Placed,
    Step,
    by_stage,
    fed_by,
    fragments_of,
    handed_on,
    has_effect,
    maker_of,
    operands_of,
    source_of,
    stage_of,
)  # fmt: skip
from ckmlir.passes.step_markers import add_markers
from ckmlir.passes.step_policies import POLICIES
from ckmlir.targets import Target


def order_step(body: list[ir.Operation], schedule: Schedule, target: Target | None = None) -> Step:
    """The operations of a loop body (without its yield) in the order of the steady step.

    `target`: the chip, for what depends on how long instructions take. ValueError, in words, where the schedule asks
    for what the body does not have.
    """
    body = [op for op in body if op.name != "ck.lds_alloc"]  # allocations leave the loop
    chosen = _chosen(body, schedule)
    ahead = _ahead(body, schedule, chosen)
    if schedule.order in POLICIES and any(op.name == MATRIX for op in body):
        step = POLICIES[schedule.order](body, ahead, schedule, target)
    else:
        step = _as_listed(body, ahead, schedule, chosen)
    return add_markers(step, schedule, target)


Chosen = list[tuple[list[ir.Operation], int | None]]
"""For every item of the step that names fragments: the operations, and how far ahead if it says so."""


def _chosen(body: list[ir.Operation], schedule: Schedule) -> Chosen:
    """What the items of the step name; a whole stage is what of it no other item names."""
    items = [item for item in schedule.step if isinstance(item, Fragments)]
    single: set[ir.Operation] = set()
    found: Chosen = []
    stages = by_stage(body)
    for item in items:
        ops: list[ir.Operation] = []
        if item.first is not None and item.last is not None:
            every = fragments_of(stages, item.stage, arithmetic=schedule.elements > 0)
            if item.last >= len(every):
                raise ValueError(
                    f"schedule '{schedule.name}' speaks of {item}; stage '{item.stage}' has {len(every)} fragments, "
                    "numbered from 0"
                )
            ops = every[item.first : item.last + 1]
            single.update(ops)
        found.append((ops, item.ahead))
    for number, item in enumerate(items):
        if item.first is None:
            whole = [op for op in stages.get(item.stage, []) if op not in single]
            found[number] = (whole, item.ahead)
    return found


def _ahead(body: list[ir.Operation], schedule: Schedule, chosen: Chosen) -> dict[ir.Operation, int]:
    tensors = _tensors(body, schedule)
    # What describes where an access goes runs as far ahead as that, not as its stage.
    staged = [op for op in body if op.name not in DESCRIPTIONS]
    ahead = dict.fromkeys(body, 0)
    ahead.update({op: schedule.ahead_of(stage_of(op) or "", tensors.get(op, "")) for op in staged})
    for ops, iterations in chosen:
        if iterations is not None:
            ahead.update(dict.fromkeys(ops, iterations))
    items = [item for item in schedule.step if isinstance(item, Fragments)]
    single = {op for item, (ops, _) in zip(items, chosen, strict=True) if item.first is not None for op in ops}
    users = _users(body)
    changed = True
    while changed:  # once, but for values that go round the loop
        changed = False
        for op in reversed(body):
            wanted = max((ahead[user] - later for user, later in users.get(op, ())), default=0)
            if wanted > ahead[op] and op not in single and not has_effect(op):
                ahead[op] = wanted
                changed = True
    return ahead


def _tensors(body: list[ir.Operation], schedule: Schedule) -> dict[ir.Operation, str]:
    """The LDS tensor that an operation accesses, or fills with what it loads, where the schedule tells them apart."""
    wanted = [name for name, _ in schedule.ahead if "." in name]
    if not wanted:
        return {}
    tensors = {op: tensor_name(op) for op in body}
    for fill in (op for op in body if op.name in FILLS):
        tensors.update(dict.fromkeys(fed_by(fill, fill.block), tensors[fill]))
    there = {f"{stage_of(op)}.{tensor}": None for op, tensor in tensors.items() if tensor}
    for name in wanted:
        if name not in there:
            have = ", ".join(there) or "no stage that accesses an LDS tensor with a name"
            raise ValueError(f"schedule '{schedule.name}' runs '{name}' ahead; the loop has {have}")
    return tensors


def _users(body: list[ir.Operation]) -> dict[ir.Operation, list[tuple[ir.Operation, int]]]:
    """For every operation its users, and how many iterations behind each it may run, all in the program's order."""
    position = {op: number for number, op in enumerate(body)}
    handed = handed_on(body[0].block) if body else []
    users: dict[ir.Operation, list[tuple[ir.Operation, int]]] = {}
    for op in body:
        for operand in operands_of(op):
            source, iterations = source_of(operand, body[0].block, handed)
            owner = maker_of(source)
            if owner in position:
                late = position[owner] >= position[op]
                users.setdefault(owner, []).append((op, iterations - late))
    return users


def _as_listed(body: list[ir.Operation], ahead: dict[ir.Operation, int], schedule: Schedule, chosen: Chosen) -> Step:
    """The program's order; what the schedule lists takes one another's places in the order listed.

    What it does not list and has no effect comes before its first user at the latest, and behind what it uses.
    """
    listed = [op for ops, _ in chosen for op in ops]
    rank = {op: number for number, op in enumerate(listed)}
    ordered = list(body)
    places = [number for number, op in enumerate(body) if op in rank]
    for place, op in zip(places, listed, strict=True):
        ordered[place] = op
    before, after = _markers(schedule, chosen)
    clusters = _clusters(ordered)
    inside = set(body)
    placed: dict[ir.Operation, Placed] = {}

    def emit(op: ir.Operation) -> None:
        if op in placed:
            return
        for operand in operands_of(op):
            owner = maker_of(operand)
            if owner is None or owner not in inside or owner in rank or has_effect(owner):
                continue
            if rank and ahead[owner] == ahead[op]:
                emit(owner)
        placed[op] = Placed(op, ahead[op], clusters[op], before.get(op, ()))

    def early(op: ir.Operation) -> bool:
        owners = {maker_of(operand) for operand in operands_of(op)} & inside
        follows = rank and op not in rank and not has_effect(op)
        return bool(follows) and any(one not in placed and ahead[one] == ahead[op] for one in owners)

    for op in ordered:
        if not early(op):
            emit(op)
    for op in ordered:
        emit(op)
    return Step(list(placed.values()), after)


def _markers(schedule: Schedule, chosen: Chosen) -> tuple[dict[ir.Operation, tuple[Marker, ...]], tuple[Marker, ...]]:
    """What the step lists between fragments, by the operation that follows; and what stands at its end."""
    before: dict[ir.Operation, tuple[Marker, ...]] = {}
    waiting: tuple[Marker, ...] = ()
    groups = iter(chosen)
    for item in schedule.step:
        if not isinstance(item, Fragments):
            waiting = (*waiting, item)
            continue
        ops, _ = next(groups)
        if ops:
            before[ops[0]] = waiting
            waiting = ()
    return before, waiting


def _clusters(ordered: list[ir.Operation]) -> dict[ir.Operation, int]:
    """Neighbours of one stage are a cluster; what belongs to no stage belongs to the one before."""
    clusters: dict[ir.Operation, int] = {}
    current: str | None = None
    number = 0
    for op in ordered:
        stage = stage_of(op)
        if stage is not None and stage != current:
            number += current is not None
            current = stage
        clusters[op] = number
    return clusters
