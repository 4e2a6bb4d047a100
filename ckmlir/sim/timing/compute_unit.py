"""One compute unit executing the workgroups of a trace: the model's answer as a timeline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing import machine as layout
from ckmlir.sim.timing.classes import describe
from ckmlir.sim.timing.events import EVENT, STALL, Timeline, Unit
from ckmlir.sim.timing.issue import run, start_group
from ckmlir.sim.timing.lds_banks import count_lanes, lds_costs
from ckmlir.sim.timing.machine import SIMDS, Integers, code_table, new_groups, new_machine, new_waves
from ckmlir.sim.timing.memory_hierarchy import Memory, memory_bytes, memory_counters
from ckmlir.sim.timing.memory_shares import new_memory
from ckmlir.sim.timing.occupancy import trace_occupancy
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.recording import AccessKind, Trace


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
    described = describe([one.instruction for one in trace.program], parameters)
    code, lists = code_table(described)
    costs, conflicts = lds_costs(trace, parameters)
    steps, accesses = _steps(trace), _accesses(trace, costs)
    indices = {number: index for index, number in enumerate(trace.workgroups)}
    workgroup = np.array([indices[number] for number in trace.groups.tolist()], np.int64)
    waves, registers = new_waves(trace.wave_first, workgroup, described.groups)
    groups, machine = new_groups(workgroup), new_machine(parameters, code)
    waiting = np.full((SIMDS, slots), -1, np.int64)
    memory = memory if memory is not None else new_memory(parameters, 1)
    events, stalls = np.zeros((len(steps), 6), np.int64), np.zeros((2 * len(steps) + 64, 5), np.int64)
    for _ in range(min(count, len(groups))):
        start_group(waves, groups, machine, waiting, 0)
    state = (waves, registers, groups, machine, waiting, memory, np.zeros(256, np.int64), events)
    while not run(code, lists, steps, accesses, trace.addresses, *state, stalls):
        stalls = np.concatenate([stalls, np.zeros_like(stalls)])
    assert machine[layout.LOG_EVENTS] == len(steps), "a wave did not end"
    found = _events(trace, events, described.unit)
    return Timeline(
        trace=trace,
        parameters=parameters,
        target=trace.target,
        events=found,
        stalls=_stalls(stalls[: machine[layout.LOG_STALLS]]),
        cycles=int(max(waves[:, layout.WAVE_END].max(), found["done"].max())),
        wave_simd=waves[:, layout.WAVE_SIMD].astype(np.int32),
        wave_slot=waves[:, layout.WAVE_SLOT].astype(np.int32),
        wave_start=waves[:, layout.WAVE_START].copy(),
        wave_end=waves[:, layout.WAVE_END].copy(),
        conflicts=conflicts.astype(np.int32),
        lds_cycles=costs.astype(np.int32),
        unit_busy=machine[layout.UNIT_BUSY_CYCLES : layout.UNIT_BUSY_CYCLES + len(Unit)].copy(),
        bytes={"lds": _lds_bytes(accesses), **memory_bytes(memory)},
        memory=memory_counters(memory),
    )


def _resident(trace: Trace, parameters: Parameters, slots: int, wanted: int | None) -> int:
    """How many workgroups are there at a time."""
    most = slots * SIMDS // trace.waves_a_group
    if wanted is None:
        return min(most, trace_occupancy(trace, parameters).workgroups)
    if not 1 <= wanted <= most:
        raise CkmlirError(f"{wanted} workgroups of {trace.waves_a_group} waves at a time; the wave slots hold {most}")
    return wanted


def _steps(trace: Trace) -> Integers:
    steps = np.empty((len(trace.steps), 3), np.int64)
    steps[:, layout.STEP_INSTRUCTION] = trace.steps["instruction"]
    steps[:, layout.STEP_ACCESS] = trace.steps["access"]
    steps[:, layout.STEP_ACCESS_END] = trace.steps["access"].astype(np.int64) + trace.steps["accesses"]
    return steps


def _accesses(trace: Trace, costs: Integers) -> Integers:
    accesses = np.empty((len(trace.accesses), 5), np.int64)
    accesses[:, layout.ACCESS_BYTES] = trace.accesses["bytes"]
    accesses[:, layout.ACCESS_KIND] = trace.accesses["kind"]
    accesses[:, layout.ACCESS_STORE] = trace.accesses["store"]
    lanes = np.zeros(len(accesses), np.int64)
    count_lanes(trace.addresses, lanes)
    accesses[:, layout.ACCESS_LANES] = lanes
    accesses[:, layout.ACCESS_LDS] = costs
    return accesses


def _lds_bytes(accesses: Integers) -> int:
    moved = accesses[:, layout.ACCESS_BYTES] * accesses[:, layout.ACCESS_LANES]
    return int(moved[accesses[:, layout.ACCESS_KIND] == AccessKind.LDS].sum())


def _events(trace: Trace, rows: Integers, unit: Integers) -> npt.NDArray[np.void]:
    events = np.zeros(len(rows), EVENT)
    events["wave"], events["step"] = rows[:, layout.EVENT_WAVE], rows[:, layout.EVENT_STEP]
    events["instruction"] = trace.steps["instruction"][rows[:, layout.EVENT_STEP]]
    events["unit"] = unit[events["instruction"]]
    events["reason"], events["stall"] = rows[:, layout.EVENT_REASON], rows[:, layout.EVENT_STALL]
    events["issue"], events["done"] = rows[:, layout.EVENT_ISSUE], rows[:, layout.EVENT_DONE]
    return events


def _stalls(rows: Integers) -> npt.NDArray[np.void]:
    stalls = np.zeros(len(rows), STALL)
    stalls["wave"], stalls["instruction"] = rows[:, layout.STALL_WAVE], rows[:, layout.STALL_INSTRUCTION]
    stalls["reason"] = rows[:, layout.STALL_REASON]
    stalls["first"], stalls["cycles"] = rows[:, layout.STALL_FIRST], rows[:, layout.STALL_CYCLES]
    return stalls[np.argsort(stalls["first"], kind="stable")]
