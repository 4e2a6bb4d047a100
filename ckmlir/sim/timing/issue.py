"""The loop of the model: the compute unit's sequencer visits its SIMDs and issues instructions of their waves.

Each cycle it looks at one of the four SIMDs, round robin, and issues at most one instruction of each of that SIMD's
waves and one of each category; s_waitcnt, s_nop and the like need no unit and have no limit. Between waves that want
the same category the higher priority (s_setprio) wins, then the older wave. Cycles in which nothing can issue are
skipped. Source: ROCm Compute Profiler documentation, "Pipeline descriptions", section "Scheduler".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.classes import Action
from ckmlir.sim.timing.compiled import compiled
from ckmlir.sim.timing.events import Reason, Unit
from ckmlir.sim.timing.machine import (
    BARRIER_CYCLES,
    BRANCH_NOT_TAKEN,
    BRANCH_TAKEN,
    CODE_ACTION,
    CODE_ADDRESS,
    CODE_AMOUNT,
    CODE_END,
    CODE_UNIT,
    EVENT_DONE,
    EVENT_ISSUE,
    EVENT_REASON,
    EVENT_STALL,
    EVENT_STEP,
    EVENT_WAVE,
    FETCH_LINE,
    FETCH_MISS,
    GROUP_ALIVE,
    GROUP_ARRIVED,
    GROUP_START_DELAY,
    GROUP_WAVE,
    GROUP_WAVES_END,
    LOG_EVENTS,
    LOG_STALLS,
    NEVER,
    NEXT_GROUP,
    REQUEST_WAVE,
    SCALAR_REQUEST,
    SIMDS,
    STALL_CYCLES,
    STALL_FIRST,
    STALL_INSTRUCTION,
    STALL_REASON,
    STALL_WAVE,
    STEP_INSTRUCTION,
    TURN,
    UNIT_FETCHED,
    UNIT_RESIDENTS,
    UNIT_TURN_AT,
    WAVE_ARRIVED,
    WAVE_EARLIEST,
    WAVE_EARLIEST_REASON,
    WAVE_END,
    WAVE_GROUP,
    WAVE_LARGEST,
    WAVE_LARGEST_REASON,
    WAVE_LAST,
    WAVE_POSITION,
    WAVE_PRIORITY,
    WAVE_REASON,
    WAVE_REASON_FIRST,
    WAVE_SIMD,
    WAVE_SINCE,
    WAVE_SLOT,
    WAVE_START,
    WAVE_START_INTERVAL,
    WAVE_WAKE,
    Integers,
)  # fmt: skip
from ckmlir.sim.timing.memory_hierarchy import Memory
from ckmlir.sim.timing.units import execute, serve_scalar_memory, serve_vector_memory
from ckmlir.sim.timing.waiting import held_until

_PAUSE, _BARRIER, _END, _PRIORITY = Action.PAUSE, Action.BARRIER, Action.END, Action.PRIORITY
_ARBITRATION: Final = int(Reason.ARBITRATION)
_AT_BARRIER: Final = int(Reason.BARRIER)
_NOP: Final = int(Reason.NOP)
_FETCH: Final = int(Reason.INSTRUCTION_FETCH)
_BRANCH, _INTERNAL = int(Unit.BRANCH), int(Unit.INTERNAL)
_SPARE_STALLS: Final = 64  # of one visit of a SIMD: two for each wave

_CATEGORIES: Final = (0, 0, 0, 1, 1, 2, 3, 4, 5, 6)
"""By Unit: of which at most one instruction issues in a turn; the last is not limited."""


@compiled
def start_group(waves: Integers, groups: Integers, machine: Integers, resident: Integers, cycle: int) -> None:
    """Place the waves of the next workgroup, each on the SIMD that has the fewest."""
    group = machine[NEXT_GROUP]
    machine[NEXT_GROUP] += 1
    first = groups[group, GROUP_WAVE]
    for wave in range(first, groups[group, GROUP_WAVES_END]):
        simd = 0
        for other in range(1, SIMDS):
            if machine[UNIT_RESIDENTS + other] < machine[UNIT_RESIDENTS + simd]:
                simd = other
        slot = machine[UNIT_RESIDENTS + simd]
        resident[simd, slot] = wave
        machine[UNIT_RESIDENTS + simd] += 1
        start = turn_after(machine, cycle + (wave - first) * machine[WAVE_START_INTERVAL], simd)
        waves[wave, WAVE_SIMD], waves[wave, WAVE_SLOT] = simd, slot
        waves[wave, WAVE_START] = waves[wave, WAVE_SINCE] = waves[wave, WAVE_WAKE] = start
        machine[UNIT_TURN_AT + simd] = min(machine[UNIT_TURN_AT + simd], start)


@compiled
def turn_after(machine: Integers, cycle: int, simd: int) -> int:
    """The first cycle from `cycle` on in which the sequencer looks at a SIMD."""
    return int(cycle + (simd - cycle) % machine[TURN])


@compiled
def note_stall(
    steps: Integers, waves: Integers, machine: Integers, stalls: Integers, wave: int, cycle: int, reason: int
) -> None:
    """The wave's next instruction cannot issue, from this cycle on for this reason; 0 ends the stall that is open."""
    known = waves[wave, WAVE_REASON]
    if known == reason:
        return
    if known != 0:
        first = waves[wave, WAVE_REASON_FIRST]
        if cycle - first > waves[wave, WAVE_LARGEST]:
            waves[wave, WAVE_LARGEST], waves[wave, WAVE_LARGEST_REASON] = cycle - first, known
        index = machine[LOG_STALLS]
        machine[LOG_STALLS] += 1
        stalls[index, STALL_WAVE] = wave
        stalls[index, STALL_INSTRUCTION] = steps[waves[wave, WAVE_POSITION], STEP_INSTRUCTION]
        stalls[index, STALL_REASON] = known
        stalls[index, STALL_FIRST] = first
        stalls[index, STALL_CYCLES] = cycle - first
    waves[wave, WAVE_REASON], waves[wave, WAVE_REASON_FIRST] = reason, cycle


@compiled
def release_barrier(waves: Integers, groups: Integers, machine: Integers, group: int, cycle: int) -> None:
    """Let the waves of a workgroup go on if all that live stand at the barrier."""
    if groups[group, GROUP_ARRIVED] == 0 or groups[group, GROUP_ARRIVED] < groups[group, GROUP_ALIVE]:
        return
    groups[group, GROUP_ARRIVED] = 0
    for wave in range(groups[group, GROUP_WAVE], groups[group, GROUP_WAVES_END]):
        if waves[wave, WAVE_ARRIVED] == 1:
            waves[wave, WAVE_ARRIVED] = 2
            waves[wave, WAVE_WAKE] = cycle + machine[BARRIER_CYCLES]
            simd = waves[wave, WAVE_SIMD]
            turn = turn_after(machine, waves[wave, WAVE_WAKE], simd)
            machine[UNIT_TURN_AT + simd] = min(machine[UNIT_TURN_AT + simd], turn)


@compiled
def end_wave(waves: Integers, groups: Integers, machine: Integers, resident: Integers, wave: int, cycle: int) -> None:
    """A wave has ended: its slot is free, and after the last one of a workgroup the next workgroup starts."""
    waves[wave, WAVE_END] = cycle
    waves[wave, WAVE_WAKE] = NEVER
    simd, group = waves[wave, WAVE_SIMD], waves[wave, WAVE_GROUP]
    kept = 0
    for index in range(machine[UNIT_RESIDENTS + simd]):
        if resident[simd, index] != wave:
            resident[simd, kept] = resident[simd, index]
            kept += 1
    machine[UNIT_RESIDENTS + simd] = kept
    groups[group, GROUP_ALIVE] -= 1
    if groups[group, GROUP_ALIVE] > 0:
        release_barrier(waves, groups, machine, group, cycle)
    elif machine[NEXT_GROUP] < len(groups):
        start_group(waves, groups, machine, resident, cycle + machine[GROUP_START_DELAY])


@compiled
def fetch_next(code: Integers, steps: Integers, waves: Integers, machine: Integers, wave: int, cycle: int) -> None:
    """What a branch, or its absence, does to the instruction that comes next."""
    step = waves[wave, WAVE_POSITION]
    number, following = steps[step, STEP_INSTRUCTION], steps[step + 1, STEP_INSTRUCTION]
    delay = 0
    line = UNIT_FETCHED + code[following, CODE_ADDRESS] // machine[FETCH_LINE]
    if code[following, CODE_ADDRESS] != code[number, CODE_END]:
        delay = machine[BRANCH_TAKEN]
        if machine[line] == 0:
            delay += machine[FETCH_MISS]
    elif code[number, CODE_UNIT] == _BRANCH:
        delay = machine[BRANCH_NOT_TAKEN]
    machine[line] = 1
    if delay > 0:
        waves[wave, WAVE_EARLIEST], waves[wave, WAVE_EARLIEST_REASON] = cycle + delay, _FETCH


@compiled
def issue(
    code: Integers, lists: Integers, steps: Integers, accesses: Integers, waves: Integers, registers: Integers,
    groups: Integers, machine: Integers, resident: Integers, events: Integers, stalls: Integers, wave: int, cycle: int,
) -> None:  # fmt: skip
    """Issue the next instruction of a wave."""
    note_stall(steps, waves, machine, stalls, wave, cycle, 0)
    step = waves[wave, WAVE_POSITION]
    number = steps[step, STEP_INSTRUCTION]
    done = execute(code, lists, steps, accesses, waves, registers, machine, wave, cycle)
    index = machine[LOG_EVENTS]
    machine[LOG_EVENTS] += 1
    events[index, EVENT_WAVE], events[index, EVENT_STEP] = wave, step
    events[index, EVENT_ISSUE], events[index, EVENT_DONE] = cycle, done
    events[index, EVENT_STALL] = cycle - waves[wave, WAVE_SINCE]
    events[index, EVENT_REASON] = waves[wave, WAVE_LARGEST_REASON]
    waves[wave, WAVE_LARGEST] = waves[wave, WAVE_LARGEST_REASON] = 0
    waves[wave, WAVE_SINCE] = waves[wave, WAVE_WAKE] = cycle + machine[TURN]
    action = code[number, CODE_ACTION]
    if action == _END or step == waves[wave, WAVE_LAST]:
        end_wave(waves, groups, machine, resident, wave, cycle + machine[TURN])
        return
    if action == _PRIORITY:
        waves[wave, WAVE_PRIORITY] = code[number, CODE_AMOUNT]
    fetch_next(code, steps, waves, machine, wave, cycle)
    if action == _PAUSE and cycle + code[number, CODE_AMOUNT] > waves[wave, WAVE_EARLIEST]:
        waves[wave, WAVE_EARLIEST] = cycle + code[number, CODE_AMOUNT]
        waves[wave, WAVE_EARLIEST_REASON] = _NOP
    waves[wave, WAVE_POSITION] = step + 1


@compiled
def passes_barrier(
    code: Integers, steps: Integers, waves: Integers, groups: Integers, machine: Integers, stalls: Integers,
    wave: int, cycle: int,
) -> bool:  # fmt: skip
    """Whether the wave may issue as far as barriers are concerned; if not, it waits for the others."""
    if code[steps[waves[wave, WAVE_POSITION], STEP_INSTRUCTION], CODE_ACTION] != _BARRIER:
        return True
    if waves[wave, WAVE_ARRIVED] == 2:
        waves[wave, WAVE_ARRIVED] = 0
        return True
    if waves[wave, WAVE_ARRIVED] == 0:
        note_stall(steps, waves, machine, stalls, wave, cycle, _AT_BARRIER)
        waves[wave, WAVE_ARRIVED] = 1
        waves[wave, WAVE_WAKE] = NEVER
        group = waves[wave, WAVE_GROUP]
        groups[group, GROUP_ARRIVED] += 1
        release_barrier(waves, groups, machine, group, cycle)
    return False


@compiled
def visit(
    code: Integers, lists: Integers, steps: Integers, accesses: Integers, waves: Integers, registers: Integers,
    groups: Integers, machine: Integers, resident: Integers, events: Integers, stalls: Integers, simd: int, cycle: int,
) -> None:  # fmt: skip
    """One turn of a SIMD."""
    used = 0
    highest = 0
    for index in range(machine[UNIT_RESIDENTS + simd]):
        highest = max(highest, waves[resident[simd, index], WAVE_PRIORITY])
    for priority in range(highest, -1, -1):
        index = 0
        while index < machine[UNIT_RESIDENTS + simd]:
            wave = resident[simd, index]
            index += 1
            if waves[wave, WAVE_PRIORITY] != priority or waves[wave, WAVE_WAKE] > cycle:
                continue
            until, reason = held_until(code, lists, steps, waves, registers, machine, wave, cycle)
            if until > cycle:
                note_stall(steps, waves, machine, stalls, wave, cycle, reason)
                waves[wave, WAVE_WAKE] = until
                continue
            unit = code[steps[waves[wave, WAVE_POSITION], STEP_INSTRUCTION], CODE_UNIT]
            bit = 1 << _CATEGORIES[unit]
            if used & bit and unit != _INTERNAL:
                note_stall(steps, waves, machine, stalls, wave, cycle, _ARBITRATION)
                waves[wave, WAVE_WAKE] = cycle + machine[TURN]
            elif passes_barrier(code, steps, waves, groups, machine, stalls, wave, cycle):
                used |= bit
                issue(
                    code, lists, steps, accesses, waves, registers, groups, machine, resident, events, stalls, wave,
                    cycle,
                )  # fmt: skip
                if waves[wave, WAVE_END] >= 0:
                    index -= 1  # the waves behind it moved up
    soonest = NEVER
    for index in range(machine[UNIT_RESIDENTS + simd]):
        soonest = min(soonest, waves[resident[simd, index], WAVE_WAKE])
    machine[UNIT_TURN_AT + simd] = NEVER if soonest >= NEVER else turn_after(machine, max(soonest, cycle + 1), simd)


@compiled
def run(
    code: Integers, lists: Integers, steps: Integers, accesses: Integers, addresses: npt.NDArray[np.uint64],
    waves: Integers, registers: Integers, groups: Integers, machine: Integers, resident: Integers, memory: Memory,
    lines: Integers, events: Integers, stalls: Integers,
) -> bool:  # fmt: skip
    """Issue until all waves have ended. False: the log of stalls is nearly full; call it again with more room."""
    while True:
        simd = 0
        for other in range(1, SIMDS):
            if machine[UNIT_TURN_AT + other] < machine[UNIT_TURN_AT + simd]:
                simd = other
        cycle = machine[UNIT_TURN_AT + simd]
        if cycle >= NEVER:
            return True
        if machine[LOG_STALLS] + _SPARE_STALLS > len(stalls):
            return False
        visit(
            code, lists, steps, accesses, waves, registers, groups, machine, resident, events, stalls, simd, cycle
        )  # fmt: skip
        if machine[REQUEST_WAVE] >= 0:
            serve_vector_memory(code, steps, accesses, addresses, waves, machine, memory, lines, events)
        if machine[REQUEST_WAVE + SCALAR_REQUEST] >= 0:
            serve_scalar_memory(code, steps, accesses, addresses, waves, machine, memory, events)
