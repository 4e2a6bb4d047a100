"""What the model says about a kernel, as text and as JSON. Both say that it is a model."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ckmlir.codeobject.occupancy import Occupancy
from ckmlir.errors import counted
from ckmlir.records import plain
from ckmlir.sim.timing.events import Timeline, Unit
from ckmlir.sim.timing.grid import GridEstimate, estimate_grid
from ckmlir.sim.timing.hot_spots import HotSpot, by_instruction, by_line, stall_cycles
from ckmlir.sim.timing.occupancy import trace_occupancy
from ckmlir.sim.timing.steady_loop import unit_instances

TITLE = "model (no GPU was timed)"


class Report(Struct, frozen=True):
    """What the model says about the compute unit that was simulated, and about the launch.

    Attributes:
        kernel, target: What, and on which chip.
        workgroups, waves: Simulated.
        cycles: Of the compute unit.
        busy: Share of the cycles in which each unit is busy, by its name in lower case; of units that there are once a
            SIMD, the mean.
        issued: Instructions by unit.
        stalls: Stall cycles of all waves by reason. wave_cycles: Cycles of all waves, stalls included.
        instructions, lines: Where waves stall longest.
        bytes: Moved by level. memory: Counters of the memory model.
        conflict_cycles: That bank conflicts add to LDS accesses.
        occupancy: Of the kernel. grid: The launch.
        parameters: How many of the model's numbers are measured, published, assumed and given; `given` has those that
            a user replaced.
    """

    kernel: str
    target: str
    workgroups: int
    waves: int
    cycles: int
    busy: dict[str, float]
    issued: dict[str, int]
    stalls: dict[str, int]
    wave_cycles: int
    instructions: list[HotSpot]
    lines: list[HotSpot]
    bytes: dict[str, int]
    memory: dict[str, float]
    conflict_cycles: int
    occupancy: Occupancy
    grid: GridEstimate
    parameters: dict[str, int]
    given: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; numbers that are none (a hit rate without accesses) are null."""
        found: dict[str, Any] = _plain({"model": TITLE, **plain(self)})
        return found

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_text(self) -> str:
        """For a person."""
        return "\n".join(_text(self))


def report(timeline: Timeline, grid: GridEstimate | None = None) -> Report:
    """What a timeline says. `grid`: the launch, by default `estimate_grid(timeline)`."""
    trace, parameters = timeline.trace, timeline.parameters
    cycles = max(1, timeline.cycles)
    issued = Counter(timeline.events["unit"].tolist())
    return Report(
        kernel=trace.kernel,
        target=timeline.target,
        workgroups=len(trace.workgroups),
        waves=trace.waves,
        cycles=timeline.cycles,
        busy={
            unit.name.lower(): float(timeline.unit_busy[unit]) / cycles / instances
            for unit, instances in unit_instances(parameters).items()
        },
        issued={unit.name.lower(): issued[unit] for unit in Unit},
        stalls=stall_cycles(timeline),
        wave_cycles=int((timeline.wave_end - timeline.wave_start).sum()),
        instructions=by_instruction(timeline),
        lines=by_line(timeline),
        bytes=dict(timeline.bytes),
        memory=dict(timeline.memory),
        conflict_cycles=int(timeline.conflicts.sum()),
        occupancy=trace_occupancy(trace, parameters),
        grid=grid or estimate_grid(timeline),
        parameters=dict(Counter(one.status for one in parameters.values())),
        given={one.name: one.value for one in parameters.values() if one.status == "given"},
    )


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.item() if hasattr(value, "item") else value


_LEVELS = ("lds", "l1", "scalar", "l2", "mall", "hbm")


def _text(one: Report) -> Iterator[str]:
    grid, steady = one.grid, one.grid.workgroup.steady
    yield f"{one.kernel} on {one.target}: {TITLE}"
    yield f"numbers: {', '.join(f'{count} {status}' for status, count in sorted(one.parameters.items()))}"
    if one.given:
        yield f"given: {', '.join(f'{name}={value}' for name, value in one.given.items())}"
    occupied = one.occupancy
    waves, groups = counted(occupied.waves_per_simd, "wave"), counted(occupied.workgroups, "workgroup")
    yield f"occupancy: {waves} a SIMD, {groups} a compute unit, limited by {occupied.limiter}"
    share = f"{counted(one.workgroups, 'workgroup')} of {counted(one.waves // one.workgroups, 'wave')}"
    yield f"one compute unit, {share}: {one.cycles} cycles"
    yield f"  busy: {_shares(one.busy)}"
    yield f"  stalls: {_shares({name: count / max(1, one.wave_cycles) for name, count in one.stalls.items()})}"
    yield f"  bank conflicts: {one.conflict_cycles} cycles"
    yield "  bytes: " + ", ".join(f"{level} {one.bytes[level]}" for level in _LEVELS if one.bytes.get(level))
    if steady:
        copies = f", {len(steady.loops)} copies for groups of waves" if len(steady.loops) > 1 else ""
        yield (
            f"main loop{copies}: {steady.trips:g} iterations of {steady.cycles_per_iteration:.1f} cycles, "
            f"{steady.prologue:.0f} before and {steady.epilogue:.0f} after"
        )
        yield f"  busy: {_shares(steady.busy)}"
        yield f"  stalls: {_shares(steady.stalls)}"
    yield from _places("instructions that waves wait at", one.instructions[:8], one.wave_cycles)
    yield from _places("lines that waves wait at", one.lines[:8], one.wave_cycles)
    places = f"{grid.workgroups_a_unit} on each of {grid.compute_units} compute units"
    launched = f"launch, {grid.mode}: {counted(grid.workgroups, 'workgroup')}"
    if grid.spread:
        yield f"{launched}, {places} at a time, {grid.fill:.0%} filled"
        spread = grid.spread
        yield (
            f"  they execute {spread.shortest:.0f} to {spread.longest:.0f} instructions: {spread.counted} of them were "
            f"counted, {spread.simulated} lengths simulated, and all dealt out in launch order"
        )
    else:
        in_rounds = f"{places} in {grid.rounds} rounds, {grid.fill:.0%} filled"
        yield f"{launched}, {in_rounds}"
    yield f"  {grid.cycles:.0f} cycles, {grid.microseconds:.1f} µs at the peak clock"
    yield f"  {grid.matrix_share:.1%} of the peak of the matrix cores, {grid.bandwidth_share:.1%} of HBM's bandwidth"
    place = grid.roofline
    if place.operations:
        yield (
            f"  roofline: {place.intensity:.1f} operations a byte (ridge {place.ridge:.1f}), bound by {place.bound}; "
            f"{place.achieved / 1e12:.1f} of {place.attainable / 1e12:.1f} TFLOPS attainable"
        )
    else:
        moved, attainable = place.moved / 1e9, place.bandwidth / 1e9
        yield f"  roofline: no matrix operations; {moved:.0f} of {attainable:.0f} GB/s attainable"


def _shares(values: Mapping[str, float]) -> str:
    """The largest shares in percent; what is below half a percent is left out."""
    shown = sorted(((share, name) for name, share in values.items() if share >= 0.005), key=lambda item: -item[0])
    return ", ".join(f"{name} {share:.1%}" for share, name in shown) or "none"


def _places(title: str, spots: list[HotSpot], wave_cycles: int) -> Iterator[str]:
    if spots:
        yield f"{title}:"
    for spot in spots:
        share = spot.cycles / max(1, wave_cycles)
        reason = next(iter(spot.reasons), "")
        yield f"  {share:6.1%}  {_below_here(spot.place)}  ({reason})"


def _below_here(place: str) -> str:
    """A place without the current directory, where it lies below."""
    return place.removeprefix(f"{os.getcwd()}{os.sep}")
