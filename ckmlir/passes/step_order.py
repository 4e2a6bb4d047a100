"""The steady step of a scheduled loop: how far ahead every operation runs, and in which order they stand.

A stage that the schedule names runs as far ahead as it says. Everything else that has no effect of its own (slices of
vectors, windows, constants) runs as far ahead as its earliest user, so that what crosses from one iteration to the next
is what memory operations produced, in the registers where they produced it.
"""

from dataclasses import dataclass

from ckmlir.dialect.build import producer
from ckmlir.dialect.loop import LOOP, STAGE
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments
from ckmlir.mlir import ir
from ckmlir.passes.walk import nested

MEMORY = frozenset({
    "ck.load_fragment", "ck.store_fragment", "ck.gather_fragment", "ck.scatter_fragment", "ck.atomic_fragment",
    "ck.lds_read", "ck.lds_write", "ck.copy_fragment", "ck.lds_alloc",
    "ck.barrier", "ck.wait", "ck.sched_barrier", "ck.sched_group_barrier", "ck.priority", LOOP,
})  # fmt: skip
"""Operations with an effect of their own: they never move with their users."""


LOADS = frozenset({"ck.load_fragment", "ck.gather_fragment"})
"""Operations that fill registers from memory."""
FILLS = frozenset({"ck.lds_write", "ck.copy_fragment"})
"""Operations that fill LDS."""


@dataclass(frozen=True)
class Placed:
    """An operation of the body: so many iterations ahead, at this place of the step (list order)."""

    op: ir.Operation
    ahead: int


def order_step(body: list[ir.Operation], schedule: Schedule) -> list[Placed]:
    """The operations of a loop body (without its yield) in the order of the steady step."""
    ahead = _ahead(body, schedule)
    if schedule.order == "interleave" and any(op.name == "ck.mfma" for op in body):
        return _interleaved(body, ahead, schedule)
    return _by_stage(body, ahead, schedule)


def stage_of(op: ir.Operation) -> str | None:
    """The stage that an operation belongs to."""
    return str(op.attributes[STAGE].value) if STAGE in op.attributes else None


def operands_of(op: ir.Operation) -> list[ir.Value]:
    """What an operation and those inside it use."""
    inside = nested(op) if len(op.regions) else ()
    return [*op.operands, *(operand for inner in inside for operand in inner.operands)]


def handed_on(block: ir.Block) -> list[ir.Value]:
    """What a loop body hands to the next iteration."""
    return list(list(block.operations)[-1].operation.operands)


def source_of(operand: ir.Value, block: ir.Block, handed: list[ir.Value]) -> tuple[ir.Value, int]:
    """The value that an operand in a loop body is, and how many iterations before it was computed.

    A carried argument is what the body hands on (`handed`); where that is another carried argument, what that one is.
    """
    iterations = 0
    while _is_carried(operand, block) and iterations <= len(handed):  # carried values may only change places
        operand = handed[operand.arg_number - 1]
        iterations += 1
    return operand, iterations


def _is_carried(operand: ir.Value, block: ir.Block) -> bool:
    return isinstance(operand, ir.BlockArgument) and operand.owner == block and operand.arg_number > 0


def _ahead(body: list[ir.Operation], schedule: Schedule) -> dict[ir.Operation, int]:
    named = dict(schedule.ahead)
    ahead = {op: named.get(stage_of(op) or "", 0) for op in body}
    users = _users(body)
    changed = True
    while changed:  # once, but for values that go round the loop
        changed = False
        for op in reversed(body):
            wanted = max((ahead[user] - later for user, later in users.get(op, ())), default=0)
            if op.name not in MEMORY and wanted > ahead[op]:
                ahead[op] = wanted
                changed = True
    return ahead


def _users(body: list[ir.Operation]) -> dict[ir.Operation, list[tuple[ir.Operation, int]]]:
    """For every operation its users, and how many iterations behind each it may run, all in the program's order."""
    position = {op: number for number, op in enumerate(body)}
    handed = handed_on(body[0].block) if body else []
    users: dict[ir.Operation, list[tuple[ir.Operation, int]]] = {}
    for op in body:
        for operand in operands_of(op):
            source, iterations = source_of(operand, body[0].block, handed)
            owner = producer(source)
            if owner in position:
                late = position[owner] >= position[op]
                users.setdefault(owner, []).append((op, iterations - late))
    return users


def _by_stage(body: list[ir.Operation], ahead: dict[ir.Operation, int], schedule: Schedule) -> list[Placed]:
    """The program's order; where the schedule lists stages, those take one another's places in the order listed."""
    if not schedule.step:
        return [Placed(op, ahead[op]) for op in body]
    rank = {item.stage: number for number, item in enumerate(schedule.step) if isinstance(item, Fragments)}
    places = [number for number, op in enumerate(body) if stage_of(op) in rank]
    moved = sorted((body[place] for place in places), key=lambda op: rank[stage_of(op) or ""])
    ordered = list(body)
    for place, op in zip(places, moved, strict=True):
        ordered[place] = op
    return [Placed(op, ahead[op]) for op in ordered]


# -- interleaving memory fragments between matrix instructions


def _interleaved(body: list[ir.Operation], ahead: dict[ir.Operation, int], schedule: Schedule) -> list[Placed]:
    """Matrix instructions in program order; between them every memory fragment at an even distance.

    The matrix instructions fall into phases, one for each step along K that LDS reads feed. The fragments of a phase
    are read during the phase before it; those of the first phase in the last phase of the iteration before.

    With several LDS buffers, writes to LDS and global loads go before the last phase; a load follows the writes that
    empty its registers, and the one barrier of the step stands before the last phase. With one buffer loads go before
    the last phase, writes into its first half, when everything else has been read, and the next reads into its second
    half; two barriers stand between these three.
    """
    matrix = [op for op in body if op.name == "ck.mfma"]
    phases = _phases(matrix)
    count = max(phases.values()) + 1
    starts = [next(i for i, op in enumerate(matrix) if phases[op] == phase) for phase in range(count)]
    end = len(matrix)
    last = starts[-1] if count > 1 else end // 2
    reads = _reads_by_phase(body, matrix, phases)
    placed: list[tuple[float, ir.Operation]] = []
    for phase, group in enumerate(reads[1:], start=1):
        placed.extend(_spread(group, starts[phase - 1], starts[phase]))
    for op in reads[0]:
        ahead[op] += 1
    if schedule.buffers > 1:
        placed.extend(_spread(_transfers(body), 0, last))
        placed.extend(_spread(reads[0], last, end))
    else:
        middle = (last + end) / 2
        placed.extend(_spread([op for op in body if op.name in LOADS], 0, last))
        placed.extend(_spread([op for op in body if op.name in FILLS], last, middle))
        placed.extend(_spread(reads[0], middle, end))
    placed.sort(key=lambda item: item[0])
    return _emit(body, matrix, placed, ahead)


def _spread(ops: list[ir.Operation], start: float, end: float) -> list[tuple[float, ir.Operation]]:
    return [(start + (number + 0.5) * (end - start) / len(ops), op) for number, op in enumerate(ops)]


def _phases(matrix: list[ir.Operation]) -> dict[ir.Operation, int]:
    """How many operand fragments each accumulator has consumed before an instruction."""
    phases: dict[ir.Operation | None, int] = {}
    for op in matrix:
        before = producer(op.operands[2])
        phases[op] = phases[before] + (_reads_of(before) != _reads_of(op)) if before in phases else 0
    return phases


def _reads_of(op: ir.Operation) -> frozenset[ir.Operation]:
    """The LDS reads that a matrix instruction's two factors come from."""
    found: set[ir.Operation] = set()
    pending = [op.operands[0], op.operands[1]]
    while pending:
        owner = producer(pending.pop())
        if owner is None:
            continue
        if owner.name == "ck.lds_read":
            found.add(owner)
        elif owner.name not in MEMORY and owner.name != "ck.mfma":
            pending.extend(owner.operands)
    return frozenset(found)


def _reads_by_phase(
    body: list[ir.Operation], matrix: list[ir.Operation], phases: dict[ir.Operation, int]
) -> list[list[ir.Operation]]:
    """LDS reads by the phase that first needs them, in the order of need."""
    groups: list[list[ir.Operation]] = [[] for _ in range(max(phases.values()) + 1)]
    seen: set[ir.Operation] = set()
    position = {op: number for number, op in enumerate(body)}
    for op in matrix:
        for read in sorted(_reads_of(op) - seen, key=lambda item: position[item]):
            groups[phases[op]].append(read)
            seen.add(read)
    return groups


def _transfers(body: list[ir.Operation]) -> list[ir.Operation]:
    """What fills LDS, and global loads: every load right behind the writes that use what it loaded before."""
    writes = [op for op in body if op.name in FILLS]
    sources = {op: _loads_of(op) for op in writes}
    ordered: list[ir.Operation] = []
    for load in (op for op in body if op.name in LOADS):
        ordered.extend(op for op in writes if load in sources[op] and op not in ordered)
        ordered.append(load)
    ordered.extend(op for op in writes if op not in ordered)
    return ordered


def _loads_of(op: ir.Operation) -> frozenset[ir.Operation]:
    found: set[ir.Operation] = set()
    pending = [op.operands[0]]
    while pending:
        owner = producer(pending.pop())
        if owner is not None:
            if owner.name in LOADS:
                found.add(owner)
            elif owner.name not in MEMORY:
                pending.extend(owner.operands)
    return frozenset(found)


def _emit(
    body: list[ir.Operation],
    matrix: list[ir.Operation],
    placed: list[tuple[float, ir.Operation]],
    ahead: dict[ir.Operation, int],
) -> list[Placed]:
    """Matrix instructions and placed fragments merged; everything else right before its first user of the same
    iteration.
    """
    fixed = {*matrix, *(op for _, op in placed)}
    order: list[Placed] = []
    done: set[ir.Operation] = set()
    inside = set(body)

    def emit(op: ir.Operation) -> None:
        if op in done:
            return
        for operand in op.operands:
            owner = producer(operand)
            if owner is not None and owner in inside and owner not in fixed and ahead[owner] == ahead[op]:
                emit(owner)
        done.add(op)
        order.append(Placed(op, ahead[op]))

    waiting = list(placed)
    for number, op in enumerate(matrix):
        while waiting and waiting[0][0] <= number:
            emit(waiting.pop(0)[1])
        emit(op)
    for _, op in waiting:
        emit(op)
    for op in body:
        emit(op)
    return order
