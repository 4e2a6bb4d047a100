"""Orders of the steady step that are computed: memory fragments spread between matrix instructions, or in chunks.

The matrix instructions of a step fall into phases, one for each step along K that operand fragments feed. `interleave`
keeps all units busy at all times within a wave; `chunks` and `interwave` alternate between reading the operands of a
phase and multiplying, so that waves in different places of the step complement each other.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ckmlir.dialect.build import registers_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier
from ckmlir.mlir import ir
from ckmlir.passes.lds_traffic import tensor_name
from ckmlir.passes.loop_body import (
    COPY,
    FILLS,
    GATHER,
    LOADS,
    MATRIX,
    READ,
    Placed,
    Step,
    fed_by,
    maker_of,
    operands_of,
    sources_of,
)  # fmt: skip
from ckmlir.passes.step_rest import Ahead, with_rest
from ckmlir.passes.step_weave import weave
from ckmlir.targets import Target

READS = frozenset({READ})
BEHIND = 4
"""Matrix instructions between the one that completes a sum and what takes the sum: they hide its latency, and no more
sums than these have wait."""
MOST_BESIDE = 32
"""Elements of a lane that are read from LDS for the sums of a step before its first product: behind the operands of the
next step they would come last, and the sums wait for all. Of more, each is read where it is used: 64, scales of 1x32
columns when they lay in LDS, took .86 of the cycles by the model before the first product, but spilled 49 registers
with two matrices (fp8, gfx942)."""


class Phases:
    """The matrix instructions of a body by phase, and the memory fragments by the phase that first needs them.

    Attributes:
        matrix: the matrix instructions in program order.
        of: the phase of each.
        starts: the number of every phase's first matrix instruction, and of one past the last.
        reads: LDS reads by phase, in the order of need; `others`: those that no matrix instruction needs.
        straight: loads from memory that matrix instructions use without LDS, by the last phase that does.
        loads: all other loads from memory; `fills`: what fills LDS.
    """

    def __init__(self, body: list[ir.Operation]) -> None:
        self.matrix = [op for op in body if op.name == MATRIX]
        position = {op: number for number, op in enumerate(body)}
        # What was loaded or read before the loop is there in every step.
        needs = {op: sources_of(op, READS | LOADS, operands=2) & position.keys() for op in self.matrix}
        self.of = _phases(self.matrix, needs)
        self.count = max(self.of.values()) + 1
        firsts = [next(i for i, op in enumerate(self.matrix) if self.of[op] == phase) for phase in range(self.count)]
        self.starts = [*firsts, len(self.matrix)]
        first: dict[ir.Operation, int] = {}
        last: dict[ir.Operation, int] = {}
        for op in self.matrix:
            for need in sorted(needs[op], key=lambda item: position[item]):
                first.setdefault(need, self.of[op])
                last[need] = max(self.of[op], last.get(need, 0))
        self.reads = [[op for op in first if op.name == READ and first[op] == phase] for phase in range(self.count)]
        self.straight = [[op for op in last if op.name in LOADS and last[op] == phase] for phase in range(self.count)]
        self.others = [op for op in body if op.name in (READ, GATHER) and op not in first]
        direct = {op for group in self.straight for op in group}
        self.loads = [op for op in body if op.name in LOADS and op not in direct]
        self.fills = [op for op in body if op.name in FILLS]


def _phases(matrix: list[ir.Operation], needs: dict[ir.Operation, frozenset[ir.Operation]]) -> dict[ir.Operation, int]:
    """How many operand fragments each accumulator has consumed before an instruction, and what the instructions have
    that its operands come from: a product of products follows these.
    """
    phases: dict[ir.Operation | None, int] = {}
    for op in matrix:
        before = maker_of(op.operands[2])
        own = phases[before] + (needs[before] != needs[op]) if before in phases else 0
        made = [phases[one] + 1 for one in sources_of(op, frozenset({MATRIX}), operands=2) if one in phases]
        phases[op] = max(own, *made) if made else own
    return {op: phases[op] for op in matrix}


Order = list[tuple[ir.Operation, int]]
"""Fragments with the clusters that they belong to."""
Slots = list[tuple[float, ir.Operation]]
"""Fragments with where they stand, counted in matrix instructions of the step."""


def _interleave(body: list[ir.Operation], ahead: Ahead, schedule: Schedule, target: Target | None) -> Step:
    """Matrix instructions in program order; between them every memory fragment at an even distance.

    The operands of a phase are read during the phase before it; those of the first phase in the last phase of the
    iteration before. (With `reads 0`: right before their own phase.)

    What fills LDS, and global loads, go before the last phase; a load follows the writes that empty its registers, and
    the one barrier of the step stands before the last phase. What fills a tensor as many iterations ahead as that has
    buffers finds its buffer free when everything else has been read, and goes into the last phase. If that is one, the
    next reads find what it writes: it takes the first half of the phase, these the second, with a barrier between.
    Else the barrier is part of the order, and reads end `lead` matrix instructions before it, so that nobody waits for
    them there; where everything is filled so, the last phase is short for that, and it begins two `lead`s earlier,
    behind a barrier of its own.
    (Loads that run further ahead than such writes follow these, so that one set of registers less is alive.) A load
    that matrix instructions use without LDS follows the last of them, so that its registers are free.
    """
    phases = Phases(body)
    starts, end = phases.starts, len(phases.matrix)
    last = starts[-2] if phases.count > 1 else end // 2
    slots: Slots = []
    for phase, group in enumerate(phases.straight):
        slots += _spread(group, starts[phase + 1], starts[phase + 2] if phase + 2 < len(starts) else end)
    behind = [op for op in phases.fills if ahead[op] >= schedule.buffers_of(tensor_name(op))]
    before = [op for op in phases.fills if op not in behind]
    if schedule.reads == 0:
        for phase, group in enumerate(phases.reads):
            slots += [(starts[phase], op) for op in group]
        slots += _spread(_transfers(phases.loads, before, ahead), 0, last)
        slots += _spread(_transfers([], behind, ahead), last, end)
        return _merge(body, phases, slots, ahead)
    found = any(ahead[op] == 1 for op in behind)  # by the next reads
    meets = bool(behind) and not found
    lead = min(schedule.lead, last // 8) if meets else 0
    free = last if before else last - 2 * lead
    rate = (free - lead) / max(last, 1)
    for phase, group in enumerate(phases.reads[1:], start=1):
        slots += _spread(group, starts[phase - 1] * rate, starts[phase] * rate)
    for op in phases.reads[0]:
        ahead[op] += 1
    if sum(len(registers_of(op)) for op in phases.others) <= MOST_BESIDE:
        slots += [(0, op) for op in phases.others]
    middle = (last + end) / 2 if found else last
    late = _fed_before(phases.loads, behind, ahead)
    slots += _spread(_transfers([op for op in phases.loads if op not in late], before, ahead), 0, last)
    slots += _spread(_transfers(late, behind, ahead), free, middle if found else end)
    slots += _spread(phases.reads[0], middle, end)
    step = _merge(body, phases, slots, ahead)
    return _meeting(step, {phases.matrix[free], phases.matrix[last]}) if meets else step


def _meeting(step: Step, at: set[ir.Operation]) -> Step:
    """The step with barriers in front of some matrix instructions."""
    return Step([replace(one, before=(Barrier(),)) if one.op in at else one for one in step.placed])


def _spread(ops: list[ir.Operation], start: float, end: float) -> Slots:
    return [(start + (number + 0.5) * (end - start) / len(ops), op) for number, op in enumerate(ops)]


def _fed_before(loads: list[ir.Operation], fills: list[ir.Operation], ahead: Ahead) -> list[ir.Operation]:
    """The loads of which a write uses what they fetched in an earlier step."""
    feeding = [(ahead[fill], fed_by(fill, fill.block)) for fill in fills]
    return [op for op in loads if any(op in fed and ahead[op] + fed[op] > early for early, fed in feeding)]


def _transfers(loads: list[ir.Operation], fills: list[ir.Operation], ahead: Ahead) -> list[ir.Operation]:
    """What fills LDS, and global loads: every load right behind the writes that use what it loaded before. What runs
    further ahead comes later, so that waits for the others leave it in flight. Copies to LDS come before loads: the
    next step waits for what it finds in LDS with loads behind it in flight, and in front of a loop copies take longer
    than what is beside them, such as scales.
    """
    loads, fills = sorted(loads, key=ahead.__getitem__), sorted(fills, key=ahead.__getitem__)
    if all(op.name == COPY for op in fills):
        return fills + loads
    feeding = {op: fed_by(op, op.block) for op in fills}
    ordered: list[ir.Operation] = []
    for load in loads:
        ordered.extend(
            op
            for op in fills
            if load in feeding[op] and op not in ordered and ahead[load] + feeding[op][load] > ahead[op]
        )
        ordered.append(load)
    ordered.extend(op for op in fills if op not in ordered)
    return ordered


def _merge(body: list[ir.Operation], phases: Phases, slots: Slots, ahead: Ahead) -> Step:
    """Matrix instructions and placed fragments merged; a phase with what stands in it is a cluster."""
    order: Order = []
    waiting = sorted(slots, key=lambda item: item[0])
    cluster = 0
    for number, op in enumerate(phases.matrix):
        while waiting and waiting[0][0] <= number:
            order.append((waiting.pop(0)[1], cluster))
        cluster = phases.of[op]
        order.append((op, cluster))
    order += [(op, cluster) for _, op in waiting]
    return Step(with_rest(body, _with_takers(body, order, ahead), ahead))


def _chunks(body: list[ir.Operation], ahead: Ahead, schedule: Schedule, target: Target | None) -> Step:
    """Phase by phase: first the reads of its operands, then its matrix instructions; then what fills LDS, and loads.

    Loads that matrix instructions use without LDS follow the phase that uses them last.
    """
    phases = Phases(body)
    clusters: list[list[ir.Operation]] = []
    for phase in range(phases.count):
        clusters.append(phases.reads[phase])
        clusters.append(phases.matrix[phases.starts[phase] : phases.starts[phase + 1]])
        clusters.append(phases.straight[phase])
    clusters.append(_transfers(phases.loads, phases.fills, ahead))
    filled = [cluster for cluster in clusters if cluster]
    order = [(op, number) for number, ops in enumerate(filled) for op in ops]
    return Step(with_rest(body, _with_takers(body, order, ahead), ahead))


def _interwave(body: list[ir.Operation], ahead: Ahead, schedule: Schedule, target: Target | None) -> Step:
    """As `chunks`; before the matrix instructions of every phase but the first waves meet, so that they multiply
    together and read together.
    """
    step = _chunks(body, ahead, schedule, target)
    multiplying = list(dict.fromkeys(item.cluster for item in step.placed if item.op.name == MATRIX))
    due = set(multiplying[1:])
    placed: list[Placed] = []
    for item in step.placed:
        placed.append(replace(item, before=(Barrier(),)) if item.cluster in due else item)
        due.discard(item.cluster)
    return Step(placed)


def _ping_pong(body: list[ir.Operation], ahead: Ahead, schedule: Schedule, target: Target | None) -> Step:
    """Turns of memory fragments, then matrix instructions, with a barrier behind each of both: for two groups of waves,
    one of which moves data while the other multiplies.

    Each turn reads the operands of its phase; what takes sums, such as the scales of groups, has its reads shared out
    among all turns but the last. What fills tensors with several LDS buffers, and global loads, are shared out among
    the turns, copies among all but the last, so that they have time to end. With one buffer the last turn fills it, and
    what it would read is read by the turn before. A load follows the write that empties its registers; one that matrix
    instructions use without LDS follows the last of them.
    """
    phases = Phases(body)
    count = max(2, phases.count)
    starts = phases.starts if phases.count > 1 else [0, len(phases.matrix) // 2, len(phases.matrix)]
    turns: list[list[ir.Operation]] = [[] for _ in range(count + 1)]  # the last: behind the step's last product
    single = [op for op in phases.fills if schedule.buffers_of(tensor_name(op)) == 1]
    rotating = [op for op in phases.fills if op not in single]
    for phase, group in enumerate(phases.reads):
        turns[min(phase, count - 2) if single else phase] += group
    for number, op in enumerate(phases.others):
        turns[number * (count - 1) // len(phases.others)].append(op)
    for phase, group in enumerate(phases.straight):
        turns[phase + 1 if phases.count > 1 else count] += group
    late = _fed_before(phases.loads, single, ahead)
    early = _transfers([op for op in phases.loads if op not in late], rotating, ahead)
    for number, op in enumerate(early):
        among = count - (bool(single) or op.name == COPY)
        turns[number * among // len(early)].append(op)
    turns[count - 1] += _transfers(late, single, ahead)
    order = []
    for turn, ops in enumerate(turns):
        order += [(op, 2 * turn) for op in ops]
        if turn < count:
            order += [(op, 2 * turn + 1) for op in phases.matrix[starts[turn] : starts[turn + 1]]]
    return _with_barriers(with_rest(body, _with_takers(body, order, ahead), ahead))


def _with_barriers(placed: list[Placed]) -> Step:
    """A barrier wherever a cluster ends; the last cluster goes on into the next step where it is one of memory."""
    found, cluster = [], placed[0].cluster
    for item in placed:
        found.append(item if item.cluster == cluster else replace(item, before=(Barrier(), *item.before)))
        cluster = item.cluster
    return Step(found, (Barrier(),) if cluster % 2 else ())


def _with_takers(body: list[ir.Operation], order: Order, ahead: Ahead) -> Order:
    """An order with what takes sums of the same iteration, and feeds nothing that has a place, soon behind them. At the
    step's end those of all its parts would be alive together.
    """
    fixed = {op for op, _ in order}
    matrices = [op for op, _ in order if op.name == MATRIX]
    needs = {op: number for number, op in enumerate(matrices, start=1)}
    """By operation, how many matrix instructions are placed when all are there that it needs."""
    for op in body:
        owners = [maker_of(operand) for operand in operands_of(op)]
        found = [needs[owner] for owner in owners if owner in needs and ahead[owner] == ahead[op]]
        if op not in fixed and found:
            needs[op] = max(found)
    early: set[ir.Operation | None] = {*fixed}  # and what has to come before these
    for op in reversed(body):
        if op in early:
            early.update(map(maker_of, operands_of(op)))
    taking = sorted((op for op in needs if op not in early), key=needs.__getitem__)
    found_order: Order = []
    for op, cluster in order:
        found_order.append((op, cluster))
        while op.name == MATRIX and taking and needs[taking[0]] + BEHIND <= needs[op]:
            found_order.append((taking.pop(0), cluster))
    return found_order


Policy = Callable[[list[ir.Operation], Ahead, Schedule, Target | None], Step]
POLICIES: dict[str, Policy] = {
    "interleave": _interleave,
    "chunks": _chunks,
    "interwave": _interwave,
    "ping_pong": _ping_pong,
    "weave": weave,
}
"""By the name that the schedule's `order` gives them."""
