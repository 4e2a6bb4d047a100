"""One compute unit executing the workgroups of a trace: the model's answer as a timeline."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing import machine as layout
from ckmlir.sim.timing.classes import Code, describe
from ckmlir.sim.timing.events import EVENT, STALL, Timeline, Unit
from ckmlir.sim.timing.issue import run, start_group
from ckmlir.sim.timing.lds_banks import lds_costs
from ckmlir.sim.timing.machine import (
    MOST_LINES,
    NEVER,
    SIMDS,
    ComputeUnit,
    Integers,
    code_table,
    new_groups,
    new_machine,
    new_waves,
)
from ckmlir.sim.timing.memory_hierarchy import Memory, memory_bytes, memory_counters
from ckmlir.sim.timing.memory_shares import new_memory
from ckmlir.sim.timing.occupancy import trace_occupancy
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.recording import NO_ADDRESS, AccessKind, Trace


def simulate(
    trace: Trace, parameters: Parameters, *, memory: Memory | None = None, resident: int | None = None
) -> Timeline:
    """Execute the workgroups of a trace on one compute unit, in their order.

    Args:
        trace: From `record`.
        parameters: Those of the trace's chip.
        memory: From `new_memory`; the default is the share of one compute unit of a device on which all are busy.
        resident: Workgroups that are on the compute unit at a time; the default is as many as fit.

    Raises:
        CkmlirError: Parameters of another chip; a workgroup that does not fit; more resident ones than wave slots hold.
    """
    if parameters.target != trace.target:
        raise CkmlirError(f"the trace is of {trace.target}, the parameters are those of {parameters.target}")
    slots = parameters.integer("compute_unit.wave_slots")
    count = _resident(trace, parameters, slots, resident)
    costs, conflicts = lds_costs(trace, parameters)
    indices = {number: index for index, number in enumerate(trace.workgroups)}
    workgroup = np.array([indices[number] for number in trace.groups.tolist()], np.int64)
    memory = memory if memory is not None else new_memory(parameters, 1)
    cu = run_waves(
        describe(trace.program, parameters), Work(trace.steps, trace.wave_first, workgroup, trace.accesses,
        trace.patterns, costs), parameters, memory, count,
    )  # fmt: skip
    waves, events = cu.waves, cu.events
    machine = cu.machine
    return Timeline(
        trace=trace,
        parameters=parameters,
        target=trace.target,
        events=events,
        stalls=cu.stalls[: machine[layout.LOG_STALLS]],
        cycles=int(max(waves[:, layout.WAVE_END].max(), events["done"].max())),
        wave_simd=waves[:, layout.WAVE_SIMD].astype(np.int32),
        wave_slot=waves[:, layout.WAVE_SLOT].astype(np.int32),
        wave_start=waves[:, layout.WAVE_START].copy(),
        wave_end=waves[:, layout.WAVE_END].copy(),
        conflicts=conflicts,
        lds_cycles=costs,
        unit_busy=machine[layout.UNIT_BUSY_CYCLES : layout.UNIT_BUSY_CYCLES + len(Unit)].copy(),
        bytes={"lds": _lds_bytes(trace, lanes_of_patterns(trace.patterns)), **memory_bytes(memory)},
        memory=memory_counters(memory),
    )


class Work(NamedTuple):
    """What waves execute, as arrays: see `Trace` and `ComputeUnit`.

    Attributes:
        workgroup: of each wave its workgroup, counted from 0; the waves of one follow each other.
        costs: Cycles of LDS for each access.
    """

    steps: npt.NDArray[Any]
    wave_first: Integers
    workgroup: Integers
    accesses: npt.NDArray[Any]
    patterns: npt.NDArray[np.uint64]
    costs: npt.NDArray[np.int32]


def run_waves(code: Code, work: Work, parameters: Parameters, memory: Memory, resident: int) -> ComputeUnit:
    """Execute waves to their ends, so many workgroups at a time, and return the compute unit as it is then."""
    slots = parameters.integer("compute_unit.wave_slots")
    table, lists = code_table(code, parameters)
    waves, registers = new_waves(work.wave_first, work.workgroup, code.groups)
    lanes = lanes_of_patterns(work.patterns)
    events = np.empty(len(work.steps), EVENT)
    cu = ComputeUnit(
        table, lists, work.steps, work.accesses, work.patterns, lanes, work.costs, waves, registers,
        new_groups(work.workgroup), new_machine(parameters, table), np.full((SIMDS, slots), -1, np.int64),
        np.full((SIMDS, slots), NEVER, np.int64),
        np.empty((len(lanes), MOST_LINES), np.int64), np.zeros((len(lanes), 2), np.int64),
        events, np.empty(2 * len(events) + 64, STALL),
    )  # fmt: skip
    for _ in range(min(resident, len(cu.groups))):
        start_group(cu, 0)
    while not run(cu, memory):
        cu = cu._replace(stalls=np.concatenate([cu.stalls, np.empty_like(cu.stalls)]))
    assert cu.machine[layout.LOG_EVENTS] == len(events), "a wave did not end"
    return cu


def lanes_of_patterns(patterns: npt.NDArray[np.uint64]) -> Integers:
    """Active lanes of each pattern."""
    lanes: Integers = np.count_nonzero(patterns != NO_ADDRESS, axis=1).astype(np.int64)
    return lanes


def _resident(trace: Trace, parameters: Parameters, slots: int, wanted: int | None) -> int:
    """How many workgroups are there at a time."""
    most = slots * SIMDS // trace.waves_a_group
    if wanted is None:
        return min(most, trace_occupancy(trace, parameters).workgroups)
    if not 1 <= wanted <= most:
        raise CkmlirError(f"{wanted} workgroups of {trace.waves_a_group} waves at a time; the wave slots hold {most}")
    return wanted


def _lds_bytes(trace: Trace, lanes: Integers) -> int:
    chosen = trace.accesses[trace.accesses["kind"] == AccessKind.LDS]
    return int((chosen["bytes"] * lanes[chosen["pattern"]]).sum())
