"""The woven order of a step: what the matrix instructions of a product leave the other units free to do stands between
them, fragment by fragment, arithmetic too.

The step names its products, each followed by the stages that lie under it. A matrix core works for many cycles on an
instruction that was issued in four; the vector unit takes the arithmetic of the stages meanwhile, and the LDS and
memory units their accesses. Places are counted in matrix instructions from the start of the step.
"""

from collections.abc import Collection

from msgspec import Struct

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments
from ckmlir.mlir import ir
from ckmlir.passes.arithmetic import arithmetic_cycles
from ckmlir.passes.lds_traffic import tensor_name
from ckmlir.passes.loop_body import (
    COPY,
    FILLS,
    FRAGMENTS,
    LOADS,
    MATRIX,
    READ,
    Placed,
    Stages,
    Step,
    by_stage,
    fragments_of,
    handed_on,
    maker_of,
    operands_of,
    source_of,
    sources_of,
    stage_of,
)
from ckmlir.passes.step_rest import Ahead, with_rest
from ckmlir.targets import Target
from ckmlir.targets.timing import VECTOR_ISSUE

BEFORE_USE = 2
"""Matrix instructions between one and the arithmetic that uses its result: while they are issued the first one ends, so
that no wait states are needed (up to 18 behind 16 passes; LLVM, GCNHazardRecognizer, checkMAIVALUHazards)."""
ASKS = LOADS | {COPY}
"""Operations that ask memory for data, which takes long to arrive."""
READ_PLACE = 0.25
"""Behind which part of a matrix instruction's place the reads that belong there stand, before arithmetic."""


Makers = dict[ir.Operation, list[ir.Operation]]
"""Of every operation of the body, in program order, those of the same step and iteration whose results it uses."""


class Slot(Struct, frozen=True):
    """A fragment behind so many matrix instructions; those of one place in the order of their numbers."""

    place: float
    number: int
    op: ir.Operation


class Section(Struct, frozen=True):
    """A product of the step: its matrix instructions in their order, the number of the first, what lies under them."""

    matrix: list[ir.Operation]
    start: int
    stages: list[str]

    @property
    def end(self) -> int:
        """The number of the matrix instruction behind the last."""
        return self.start + len(self.matrix)


def weave(body: list[ir.Operation], ahead: Ahead, schedule: Schedule, target: Target | None) -> Step:
    """Every product of the step with the stages listed behind it spread between its matrix instructions.

    Memory fragments of a stage lie at even distances, loads `spacing` matrix instructions apart where the schedule says
    so, in front of the step's reads of what they write. LDS reads of
    operands lie `lead` matrix instructions before the first that uses them, in the step before where that is before the
    step's first. Arithmetic is shared out by the time it takes, in the program's order, and begins when what it uses is
    there.

    ValueError: the step lists no product first, or lacks a stage with fragments, or reads wrap around to where nothing
    is written yet, or no chip is named.
    """
    if target is None:
        raise ValueError(f"schedule '{schedule.name}' asks for order weave, which depends on the chip; name one")
    sections = _sections(body, schedule)
    matrix = [op for section in sections for op in section.matrix]
    number = {op: place for place, op in enumerate(matrix)}
    stages = by_stage(body)
    pieces = {section.start: _pieces(stages, section) for section in sections}
    reads = _reads(matrix, number, schedule, ahead, frozenset().union(*pieces.values()))
    slots = [Slot(place + READ_PLACE, order, op) for order, (op, place) in enumerate(reads.items())]
    makers = _makers(body, ahead)
    ready = _ready(makers, number)
    for section in sections:
        slots += _memory(stages, section, reads, ready, ahead, schedule.spacing, len(slots))
        slots += _arithmetic(pieces[section.start], section, makers, ready, len(slots), target)
    placed = with_rest(body, _merged(matrix, slots), ahead)
    _check_wrapped(placed, reads, number, schedule)
    return Step(placed)


def _sections(body: list[ir.Operation], schedule: Schedule) -> list[Section]:
    sections: list[Section] = []
    start = 0
    for name in (item.stage for item in schedule.step if isinstance(item, Fragments)):
        matrix = [op for op in body if op.name == MATRIX and stage_of(op) == name]
        if matrix:
            sections.append(Section(_finishing(matrix, body), start, [name]))
            start += len(matrix)
        elif sections:
            sections[-1].stages.append(name)
        else:
            raise ValueError(
                f"schedule '{schedule.name}' weaves a step that begins with '{name}', which has no matrix "
                "instructions; a step lists each product, then what lies under it"
            )
    listed = {name for section in sections for name in section.stages}
    for op in body:
        if op.name in FRAGMENTS and stage_of(op) not in listed:
            raise ValueError(
                f"schedule '{schedule.name}' weaves a step without stage '{stage_of(op)}', which holds '{op.name}'; "
                "list it behind the product under which it is to lie"
            )
    return sections


def _finishing(matrix: list[ir.Operation], body: list[ir.Operation]) -> list[ir.Operation]:
    """The matrix instructions of a product in their order.

    Accumulators that begin in the step are finished one after another, so that the last of them take registers late
    and arithmetic can begin on the first. Those that go round the loop keep the program's order.
    """
    home: dict[ir.Value, int] = {}
    begins = True
    handed = handed_on(body[0].block)
    for op in matrix:
        before = op.operands[2]
        maker = maker_of(before)
        if maker is None:  # it goes round the loop as it is
            begins, home[op.results[0]] = False, len(home)
        elif maker not in matrix:
            begins = begins and source_of(before, body[0].block, handed)[1] == 0 and maker not in body
            home[op.results[0]] = len(home)
        else:
            home[op.results[0]] = home[before]
    return sorted(matrix, key=lambda op: home[op.results[0]]) if begins else matrix


def _reads(
    matrix: list[ir.Operation],
    number: dict[ir.Operation, int],
    schedule: Schedule,
    ahead: Ahead,
    pieces: Collection[ir.Operation],
) -> dict[ir.Operation, int]:
    """The places of LDS reads of operands; those in the step before run an iteration further ahead. Reads whose values
    reach a product only through `pieces` of arithmetic are not among them."""
    if schedule.lead >= len(matrix):
        raise ValueError(
            f"schedule '{schedule.name}' reads {schedule.lead} matrix instructions ahead; its step has {len(matrix)}"
        )
    places: dict[ir.Operation, int] = {}
    position = {op: place for place, op in enumerate(ahead)}
    for op in matrix:
        for read in sorted(sources_of(op, frozenset({READ}), 2, pieces) & ahead.keys(), key=position.__getitem__):
            if read not in places:
                place = number[op] - schedule.lead
                ahead[read] += place < 0
                places[read] = place % len(matrix)
    return places


def _memory(
    stages: Stages,
    section: Section,
    reads: dict[ir.Operation, int],
    ready: dict[ir.Operation, float],
    ahead: Ahead,
    spacing: int,
    first: int,
) -> list[Slot]:
    """Accesses to memory and LDS under a product, but not before what they take of the step's products is there. Those
    of each stage lie at even distances; what asks memory for data, `spacing` matrix instructions apart where that is
    less."""
    slots: list[Slot] = []
    for name in section.stages:
        ops = [op for op in fragments_of(stages, name) if op.name != MATRIX and op not in reads]
        room = _room(ops, section, reads, ahead)
        if spacing and ops and ops[0].name in ASKS:
            room = min(room, float(spacing * len(ops)))
        for order, op in enumerate(ops):
            place = section.start + (order + 0.5) * room / len(ops)
            slots.append(Slot(max(place, min(ready[op], section.end)), first + len(slots), op))
    return slots


def _room(ops: list[ir.Operation], section: Section, reads: dict[ir.Operation, int], ahead: Ahead) -> float:
    """Over how many of the product's matrix instructions the accesses of a stage are spread: all, or those in front of
    the first read of the step that has to find what they write."""
    finding = [
        place + READ_PLACE - section.start
        for read, place in reads.items()
        if any(op.name in FILLS and op.operands[1] == read.operands[0] and ahead[op] == ahead[read] for op in ops)
    ]
    whole = float(len(section.matrix))
    before = min(finding, default=whole)
    return whole if not finding or (len(ops) - 0.5) * whole / len(ops) < before else max(before, 0.0)


def _arithmetic(
    ops: list[ir.Operation],
    section: Section,
    makers: Makers,
    ready: dict[ir.Operation, float],
    first: int,
    target: Target,
) -> list[Slot]:
    """The arithmetic under a product, shared out over it by the time that it takes."""
    if not ops:
        return []
    busy = {op: arithmetic_cycles(op, target).busy for op in ops}
    ops = _piece_by_piece(makers, busy)
    times = [busy[op] for op in ops]
    begin = place = min(max(float(section.start), ready[ops[0]]), float(section.end))
    total, done = sum(times), 0.0
    slots = []
    for order, (op, time) in enumerate(zip(ops, times, strict=True)):
        share = begin + (done + time / 2) / total * (section.end - begin)
        place = max(place, share, min(ready[op], section.end))
        slots.append(Slot(place, first + order, op))
        done += time
    return slots


def _pieces(stages: Stages, section: Section) -> list[ir.Operation]:
    """The arithmetic of the stages under a product that have no fragments of memory or matrices."""
    staged = [fragments_of(stages, name, arithmetic=True) for name in section.stages]
    return [op for ops in staged for op in ops if op.name not in FRAGMENTS]


def _piece_by_piece(makers: Makers, busy: dict[ir.Operation, int]) -> list[ir.Operation]:
    """Arithmetic with what uses a result soon behind what computes it, so that few results are alive at a time.

    Of the operations whose operands are there the one with the most steps behind it is next, of equal ones the
    program's first; where none is, as many cycles pass as the first of them lacks. `busy`: the cycles that each takes.
    """
    sources = _sources(makers, busy.keys())
    users: dict[ir.Operation, list[ir.Operation]] = {op: [] for op in busy}
    depth: dict[ir.Operation, int] = {}
    for op, used in sources.items():
        depth[op] = max((depth[one] + 1 for one in used), default=0)
        for one in used:
            users[one].append(op)
    rank = {op: (depth[op], -number) for number, op in enumerate(busy)}
    lacking = {op: len(used) for op, used in sources.items()}
    starts = {op: 0 for op in busy if not lacking[op]}
    there: dict[ir.Operation, int] = {}
    now = 0
    while starts:
        now = max(now, min(starts.values()))
        op = max((one for one in starts if starts[one] <= now), key=rank.__getitem__)
        del starts[op]
        now += busy[op]
        there[op] = now + VECTOR_ISSUE
        for user in users[op]:
            lacking[user] -= 1
            if not lacking[user]:
                starts[user] = max(there[one] for one in sources[user])
    return list(there)


def _sources(makers: Makers, chosen: Collection[ir.Operation]) -> dict[ir.Operation, frozenset[ir.Operation]]:
    """Of each of the `chosen` those of them that it uses, itself or through operations that compute nothing; all in the
    program's order, which need not be that in which stages are listed."""
    found: dict[ir.Operation, frozenset[ir.Operation]] = {}
    for op, made in makers.items():
        found[op] = frozenset().union(*(frozenset((one,)) if one in chosen else found[one] for one in made))
    return {op: used for op, used in found.items() if op in chosen}


def _makers(body: list[ir.Operation], ahead: Ahead) -> Makers:
    """Of every operation those whose results it uses in the iteration for which both run."""
    makers: Makers = {}
    for op in body:
        made = [one for one in map(maker_of, operands_of(op)) if one is not None and one in makers]
        makers[op] = [one for one in made if ahead[one] == ahead[op]]
    return makers


def _ready(makers: Makers, number: dict[ir.Operation, int]) -> dict[ir.Operation, float]:
    """For every operation the place from which on the results of matrix instructions that it uses are there, of those
    that the same step computes."""
    ready: dict[ir.Operation, float] = {}
    for op, made in makers.items():
        ready[op] = max((ready[one] for one in made), default=0.0)
        if op in number:
            ready[op] = number[op] + 1.0 + BEFORE_USE
    return ready


def _merged(matrix: list[ir.Operation], slots: list[Slot]) -> list[tuple[ir.Operation, int]]:
    """Matrix instructions and what stands between them, as one cluster."""
    order: list[tuple[ir.Operation, int]] = []
    waiting = sorted(slots, key=lambda slot: (slot.place, slot.number), reverse=True)
    for number, op in enumerate(matrix):
        while waiting and waiting[-1].place < number:
            order.append((waiting.pop().op, 0))
        order.append((op, 0))
    return order + [(slot.op, 0) for slot in reversed(waiting)]


def _check_wrapped(
    placed: list[Placed], reads: dict[ir.Operation, int], number: dict[ir.Operation, int], schedule: Schedule
) -> None:
    """What reads in the step before find was written before them."""
    position = {one.op: place for place, one in enumerate(placed)}
    ahead = {one.op: one.ahead for one in placed}
    fills: dict[ir.Value, list[ir.Operation]] = {}
    for op in ahead:
        if op.name in FILLS:
            fills.setdefault(op.operands[1], []).append(op)
    for read in reads:
        for fill in fills.get(read.operands[0], ()):
            early = ahead[fill] - ahead[read]
            if early < 0 or (early == 0 and position[fill] > position[read]):
                stage, need = stage_of(fill), ahead[fill] + (1 if early == 0 else -early)
                raise ValueError(
                    f"schedule '{schedule.name}' reads '{tensor_name(read)}' {schedule.lead} matrix instructions "
                    f"ahead, so some of it {ahead[read]} iterations ahead, and stage '{stage}' has not written it by "
                    f"then; write 'ahead {stage} {need}', or a smaller lead"
                )
