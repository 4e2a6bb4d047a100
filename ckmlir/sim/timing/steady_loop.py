"""The loop in which a kernel spends its time: where it is in the code, and what one iteration costs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.sim.timing.classes import describe
from ckmlir.sim.timing.events import Reason, Timeline, Unit

if TYPE_CHECKING:
    from ckmlir.sim.timing.parameters import Parameters
    from ckmlir.sim.timing.recording import Trace

COPY = 0.5
"""A wave's loop is a copy of the main loop if it takes at least this share of the steps of that."""
ONE_A_SIMD = (Unit.MFMA, Unit.VALU, Unit.TRANS, Unit.SALU, Unit.BRANCH)
"""Units that take an instruction of each SIMD in its turn; the scalar unit is there once, and serves a SIMD a cycle."""


def unit_instances(parameters: Parameters) -> dict[Unit, int]:
    """How many SIMDs' instructions each unit of a compute unit works on in a turn. INTERNAL is left out: waits, pauses
    and barriers take no unit, any number of waves execute theirs in a turn.
    """
    simds = parameters.integer("compute_unit.simds")
    return {unit: simds if unit in ONE_A_SIMD else 1 for unit in Unit if unit is not Unit.INTERNAL}


class Loop(NamedTuple):
    """Instructions of the program: from where a jump back goes to, to the jump."""

    first: int
    last: int


class SteadyLoop(Struct, frozen=True):
    """A kernel's main loop, as the model sees it.

    Attributes:
        loops: Where it is in the program; several where groups of waves run copies of it, that of most waves first.
        trips: Iterations of a wave, on average.
        cycles_per_iteration: On average, without the first quarter of each wave's iterations, while memory and caches
            come to a steady state, and without the first at least, in which other waves may not have come to the loop;
            where a wave goes on from its first iteration only, of that.
        prologue, epilogue: Cycles of a workgroup before its first iteration, and what is left of its time after it.
        steps_per_iteration: Instructions a wave executes.
        begin, end: Cycles between which all waves of the first workgroup are in the steady part.
        busy: Share of the cycles from begin to end in which each unit is busy, by its name in lower case.
        stalls: Share of the waves' cycles there by reason, the largest first.
    """

    loops: tuple[Loop, ...]
    trips: float
    cycles_per_iteration: float
    prologue: float
    epilogue: float
    steps_per_iteration: float
    begin: int
    end: int
    busy: dict[str, float]
    stalls: dict[str, float]

    def cycles(self, trips: float) -> float:
        """Cycles of a workgroup whose waves make `trips` iterations."""
        return self.prologue + trips * self.cycles_per_iteration + self.epilogue


def main_loops(trace: Trace) -> list[Loop | None]:
    """For every wave the loop in which it spends its time; None where it has none.

    That is the loop with most steps of its own, those of loops within it not counted, in all waves that run it. Groups
    of waves may run copies of it: waves that do not run it have the loop with most of their steps, if it takes at least
    half as many of each.
    """
    orders = [trace.steps_of(wave)["instruction"].astype(np.int64) for wave in range(trace.waves)]
    counts = [np.bincount(order, minlength=len(trace.program)) for order in orders]
    steps = [_own_steps(order, count) for order, count in zip(orders, counts, strict=True)]
    found: list[Loop | None] = [None] * trace.waves
    without, most = set(range(trace.waves)), 0.0
    while any(steps[wave] for wave in without):
        sums: Counter[Loop] = Counter()
        for wave in without:
            sums.update(steps[wave])
        loop = max(sums, key=lambda one: (sums[one], -one.first))
        running = [wave for wave in without if counts[wave][loop.first] and counts[wave][loop.last]]
        if sums[loop] < COPY * most * len(running):
            break
        most = max(most, sums[loop] / len(running))
        for wave in running:
            found[wave] = loop
        without.difference_update(running)
    return found


def _own_steps(order: npt.NDArray[np.int64], count: npt.NDArray[np.int64]) -> dict[Loop, int]:
    """The loops that a wave goes round, and its steps in each that are not in one within it."""
    back = np.nonzero(order[1:] <= order[:-1])[0]
    jumps = np.unique(np.stack([order[back + 1], order[back]], axis=1), axis=0)
    counts, own = count.copy(), {}
    for loop in sorted((Loop(*jump) for jump in jumps.tolist()), key=lambda one: one.last - one.first):
        own[loop] = int(counts[loop.first : loop.last + 1].sum())
        counts[loop.first : loop.last + 1] = 0
    return own


def headers(trace: Trace, wave: int, loop: Loop) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The steps (indexes in trace.steps) at which a wave starts an iteration, and which of them go on to another
    iteration without leaving the loop."""
    first = int(trace.wave_first[wave])
    order = trace.steps_of(wave)["instruction"].astype(np.int64)
    at = np.nonzero(order == loop.first)[0]
    outside = np.concatenate([[0], np.cumsum((order < loop.first) | (order > loop.last))])
    goes_on = np.zeros(len(at), np.bool_)
    goes_on[:-1] = outside[at[1:]] == outside[at[:-1]]
    return at + first, goes_on


def steady_loop(timeline: Timeline) -> SteadyLoop | None:
    """The main loop of a timeline; None without a loop, or when no wave goes from one iteration to the next."""
    trace = timeline.trace
    loops = main_loops(trace)
    if not any(loops):
        return None
    issue = np.zeros(len(trace.steps), np.int64)
    issue[timeline.events["step"]] = timeline.events["issue"]
    spans: list[float] = []
    steps: list[float] = []
    trips: list[int] = []
    begins, ends, starts = [], [], []
    for wave, loop in enumerate(loops):
        if loop is None:
            trips.append(0)
            continue
        at, goes_on = headers(trace, wave, loop)
        kept = np.nonzero(goes_on)[0]
        kept = kept[_unsteady(len(kept)) :]
        trips.append(len(at))
        if not len(kept):
            continue
        spans.append(float(np.mean(issue[at[kept + 1]] - issue[at[kept]])))
        steps.append(float(np.mean(at[kept + 1] - at[kept])))
        starts.append((int(trace.groups[wave]), int(issue[at[0]])))
        if trace.groups[wave] == trace.groups[0]:
            begins.append(int(issue[at[kept[0]]]))
            ends.append(int(issue[at[kept[-1] + 1]]))
    if not spans or not ends or max(begins) >= min(ends):
        return None
    begin, end = max(begins), min(ends)
    trip, span = float(np.mean(trips)), float(np.mean(spans))
    prologue, total = _group_times(timeline, starts)
    return SteadyLoop(
        loops=tuple(loop for loop, _ in Counter(loop for loop in loops if loop is not None).most_common()),
        trips=trip,
        cycles_per_iteration=span,
        prologue=prologue,
        epilogue=total - prologue - trip * span,
        steps_per_iteration=float(np.mean(steps)),
        begin=begin,
        end=end,
        busy=busy_between(timeline, begin, end),
        stalls=stalls_between(timeline, begin, end),
    )


def _unsteady(iterations: int) -> int:
    """How many of a wave's first iterations are not counted."""
    return min(max(1, iterations // 4), iterations - 1) if iterations else 0


def _group_times(timeline: Timeline, starts: list[tuple[int, int]]) -> tuple[float, float]:
    """Cycles of a workgroup, on average: until its first wave is in the loop, and altogether."""
    before, whole = [], []
    for group in timeline.trace.workgroups:
        waves = timeline.trace.groups == group
        start = int(timeline.wave_start[waves].min())
        whole.append(int(timeline.wave_end[waves].max()) - start)
        entered = [cycle for number, cycle in starts if number == group]
        if entered:
            before.append(min(entered) - start)
    return float(np.mean(before)), float(np.mean(whole))


def busy_between(timeline: Timeline, begin: int, end: int) -> dict[str, float]:
    """Share of the cycles from begin to end in which each unit is busy with what is issued in them, by its name.

    Of units that there are once a SIMD, the mean of the SIMDs. The cycles that a unit was busy in the whole timeline
    are spread over its instructions, by how long each keeps it busy.
    """
    events, trace = timeline.events, timeline.trace
    code = describe(trace.program, timeline.parameters)
    weights = np.maximum(code.busy, 1)[events["instruction"]].astype(np.float64)
    is_lds = events["unit"] == Unit.LDS
    weights[is_lds] = np.maximum(_lds_cycles(timeline, events["step"][is_lds]), 1)
    inside = (events["issue"] >= begin) & (events["issue"] < end)
    found = {}
    for unit, instances in unit_instances(timeline.parameters).items():
        mine = events["unit"] == unit
        whole = float(weights[mine].sum())
        part = float(weights[mine & inside].sum()) / whole if whole else 0.0
        found[unit.name.lower()] = float(timeline.unit_busy[unit]) * part / (instances * max(1, end - begin))
    return found


def _lds_cycles(timeline: Timeline, steps: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Cycles that each of some steps keeps LDS busy."""
    rows = timeline.trace.steps[steps]
    total = np.concatenate([[0], np.cumsum(timeline.lds_cycles)])
    first = rows["access"].astype(np.int64)
    found = np.zeros(len(rows), np.float64)
    some = first >= 0
    found[some] = total[first[some] + rows["accesses"][some]] - total[first[some]]
    return found


def stalls_between(timeline: Timeline, begin: int, end: int) -> dict[str, float]:
    """Share of the cycles, from begin to end, of the waves that are there, that they stall, by reason in words; the
    largest first."""
    present = np.minimum(timeline.wave_end, end) - np.maximum(timeline.wave_start, begin)
    cycles = float(np.maximum(present, 0).sum())
    stalls = timeline.stalls
    part = np.minimum(stalls["first"] + stalls["cycles"], end) - np.maximum(stalls["first"], begin)
    sums = np.bincount(stalls["reason"], weights=np.maximum(part, 0), minlength=256)
    found = {words_of(reason): float(sums[reason]) / cycles for reason in Reason if sums[reason] > 0 and cycles}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def words_of(reason: Reason) -> str:
    """A reason as reports name it, such as "wait vmem" or "unit busy lds"."""
    return reason.name.lower().replace("_", " ")
