"""From one compute unit to the whole launch: an estimate, by the model, of the cycles of a grid.

Workgroups run in rounds: each compute unit takes as many as fit, and the last round may fill only some. How long a
round takes comes from a timeline in one of two ways.

- Sampled: as many workgroups as fit were simulated together; a round takes as long as they did.
- Analytic: fewer were simulated, usually one; a round takes no less than that.

A round also takes no less than what its workgroups need together of the busiest unit of the compute unit, or of its
share of memory: stores that are on their way when a wave ends are paid for in the next round.

Either way, a main loop lets the time be carried over to another number of iterations.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.events import Timeline
from ckmlir.sim.timing.memory_shares import device_units, hbm_bytes_per_cycle
from ckmlir.sim.timing.occupancy import trace_occupancy
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.roofline import MatrixWork, Roofline, matrix_work, roofline
from ckmlir.sim.timing.steady_loop import SteadyLoop, steady_loop, unit_instances

Mode = Literal["analytic", "sampled"]


class WorkgroupEstimate(Struct, frozen=True):
    """One workgroup, with the others of its compute unit around it as they were simulated.

    Attributes:
        cycles: From the start of the first workgroup simulated to the end of the last, for as many as were there at a
            time. drain: Cycles until its last stores have been acknowledged.
        steady: Its main loop, if it has one; trips: iterations counted with.
        work: Of the matrix cores. bytes: By level.
        busy: Cycles that it needs of each unit (of each of several, where there is one a SIMD) and of the compute
            unit's share of HBM, by name in lower case: workgroups together take no less than their sum.
    """

    cycles: float
    drain: float
    steady: SteadyLoop | None
    trips: float
    work: MatrixWork
    bytes: dict[str, float]
    busy: dict[str, float]

    @property
    def limiter(self) -> tuple[str, float]:
        """The unit of which it needs most, with the cycles."""
        return max(self.busy.items(), key=lambda item: item[1])


class Spread(Struct, frozen=True):
    """Of workgroups that are not alike: instructions of the shortest and of the longest, how many were counted to know
    them all, and how many lengths were simulated."""

    shortest: float
    longest: float
    counted: int
    simulated: int


class GridEstimate(Struct, frozen=True):
    """A launch on the whole device, by the model.

    Attributes:
        mode: How a round's cycles were found.
        workgroups, compute_units, workgroups_a_unit: Of the launch, of the device, and those that run on a compute unit
            at a time.
        rounds: In which the workgroups run; the last may be partial. Of workgroups that are not alike, which follow
            each other without rounds, the least number of workgroups in a place.
        fill: Share of the places in these rounds, or of the time in the places, that has a workgroup: what wave
            quantisation and unequal lengths leave.
        round_cycles, cycles: Of a full round (of an average workgroup), and altogether. microseconds: At the peak
            clock.
        matrix_share: Share of the peak of all matrix cores, for the instructions that the kernel uses.
        bandwidth_share: Share of what HBM delivers when well used.
        bytes: By level, of all workgroups.
        workgroup: What it was made from. roofline: Where it stands.
        spread: Where workgroups are not alike.
    """

    mode: Mode
    workgroups: int
    compute_units: int
    workgroups_a_unit: int
    rounds: int
    fill: float
    round_cycles: float
    cycles: float
    microseconds: float
    matrix_share: float
    bandwidth_share: float
    bytes: dict[str, float]
    workgroup: WorkgroupEstimate
    roofline: Roofline
    spread: Spread | None = None


def estimate_workgroup(
    timeline: Timeline, trips: float | None = None, busy_units: int | None = None
) -> WorkgroupEstimate:
    """The average recorded workgroup, carried over to `trips` iterations of its main loop (default: as recorded).

    What is counted (bytes, work, cycles of units) grows with the executed instructions. `busy_units`: compute units
    among which HBM's bandwidth is shared, by default all of the device.

    Raises:
        CkmlirError: Iterations are given, and there is no main loop to make them.
    """
    trace, parameters = timeline.trace, timeline.parameters
    groups = len(trace.workgroups)
    steady = steady_loop(timeline)
    work = matrix_work(trace, parameters)
    cycles = _span(timeline)
    if trips is None:
        growth, made = 1.0, steady.trips if steady else 0.0
    elif steady is None:
        raise CkmlirError(
            f"{trace.kernel}: no loop with several iterations was recorded, so it cannot be carried over to {trips:g}"
        )
    else:
        cycles, made = cycles + (trips - steady.trips) * steady.cycles_per_iteration, trips
        steps = len(trace.steps) / trace.waves
        growth = max(0.0, 1 + (trips - steady.trips) * steady.steps_per_iteration / steps)
    scale = growth / groups
    moved = {level: count * scale for level, count in timeline.bytes.items()}
    busy = {
        unit.name.lower(): float(timeline.unit_busy[unit]) * scale / instances
        for unit, instances in unit_instances(parameters).items()
    }
    sharing_units = device_units(parameters) if busy_units is None else busy_units
    busy["hbm"] = moved.get("hbm", 0.0) * sharing_units / hbm_bytes_per_cycle(parameters)
    return WorkgroupEstimate(
        cycles=cycles,
        drain=float(max(0, timeline.cycles - int(timeline.wave_end.max()))),
        steady=steady,
        trips=made,
        work=MatrixWork(work.operations * scale, work.cycles * scale),
        bytes=moved,
        busy=busy,
    )


def _span(timeline: Timeline) -> float:
    """Cycles in which a compute unit executes as many workgroups as fit, or all that were simulated if these are
    fewer."""
    simulated = len(timeline.trace.workgroups)
    resident = min(simulated, trace_occupancy(timeline.trace, timeline.parameters).workgroups)
    return float(timeline.wave_end.max() - timeline.wave_start.min()) * resident / simulated


def estimate_grid(
    timeline: Timeline,
    *,
    workgroups: int | None = None,
    trips: float | None = None,
    tail: Timeline | None = None,
) -> GridEstimate:
    """A launch of the kernel of a timeline.

    Args:
        timeline: Of one workgroup or of several; sampled, when as many as fit on a compute unit or more.
        workgroups: Of the launch (default: that of the recording). trips: Iterations of the main loop (default: as
            recorded).
        tail: Of the fewer workgroups that a compute unit has in the last round; without it they are taken to need as
            long as in `timeline`, or as the analytic rule says.

    Raises:
        CkmlirError: No workgroups, no loop to carry over, or a kernel that does not fit on a compute unit.
    """
    trace, parameters = timeline.trace, timeline.parameters
    count = math.prod(trace.grid) if workgroups is None else workgroups
    if count < 1:
        raise CkmlirError(f"{trace.kernel}: a launch of {count} workgroups has nothing to estimate")
    units, fitting = device_units(parameters), trace_occupancy(trace, parameters).workgroups
    # The hardware fills all compute units before it gives one another workgroup, so small launches never share one.
    together = min(fitting, math.ceil(count / units))
    simulated = len(trace.workgroups)
    mode: Mode = "sampled" if simulated >= together else "analytic"
    one = estimate_workgroup(timeline, trips, min(units, count))
    full, rest = divmod(count, units * together)
    rounds = full + (rest > 0)
    round_cycles = _round(one.cycles, one, together)
    last = one if tail is None or not rest else estimate_workgroup(tail, trips, min(units, rest))
    cycles = (rounds - 1) * (round_cycles + parameters.integer("compute_unit.workgroup_start_delay"))
    cycles += _round(last.cycles + last.drain, last, math.ceil(rest / units) if rest else together)
    hertz = parameters.number("chip.clock") * 1e6
    moved = {level: value * count for level, value in one.bytes.items()}
    work = MatrixWork(one.work.operations * count, one.work.cycles * count)
    cycles = within_peaks(parameters, cycles, work, moved.get("hbm", 0.0))
    place = roofline(parameters, work, moved.get("hbm", 0.0), cycles)
    return GridEstimate(
        mode=mode,
        workgroups=count,
        compute_units=units,
        workgroups_a_unit=together,
        rounds=rounds,
        fill=count / (rounds * units * together),
        round_cycles=round_cycles,
        cycles=cycles,
        microseconds=cycles / hertz * 1e6,
        matrix_share=place.achieved / place.peak if place.peak else 0.0,
        bandwidth_share=place.moved / place.bandwidth,
        bytes=moved,
        workgroup=one,
        roofline=place,
    )


def within_peaks(parameters: Parameters, cycles: float, work: MatrixWork, hbm_bytes: float) -> float:
    """The cycles of a launch, but no fewer than all matrix cores, or all of HBM, need for what it does: a sample that
    does not stand for the rest must not make the chip faster than it is."""
    cores = device_units(parameters) * parameters.integer("compute_unit.simds")
    return max(cycles, work.cycles / cores, hbm_bytes / hbm_bytes_per_cycle(parameters))


def _round(cycles: float, one: WorkgroupEstimate, together: int) -> float:
    """Cycles of a round of `together` workgroups on a compute unit, which took `cycles` as they were simulated."""
    return max(cycles, together * one.limiter[1])


__all__ = [
    "GridEstimate", "Mode", "Spread", "WorkgroupEstimate", "estimate_grid", "estimate_workgroup", "within_peaks",
]  # fmt: skip
