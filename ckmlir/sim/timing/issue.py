"""The loop of the model: the compute unit's sequencer visits its SIMDs and issues instructions of their waves.

Each cycle it looks at one of the four SIMDs, round robin, and issues at most one instruction of each of that SIMD's
waves and one of each category; s_waitcnt, s_nop and the like need no unit and have no limit. Between waves that want
the same category the higher priority (s_setprio) wins, then the older wave. Cycles in which nothing can issue are
skipped. Source: ROCm Compute Profiler documentation, "Pipeline descriptions", section "Scheduler".
"""

from __future__ import annotations

from typing import Final

import numpy as np

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
    CODE_LINE,
    CODE_UNIT,
    FETCH_MISS,
    FOR_VECTOR,
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
    TURN,
    UNIT_FETCHED,
    UNIT_PRIORITIES,
    UNIT_RESIDENTS,
    UNIT_TURN_AT,
    UNIT_VECTOR_FREE,
    WAVE_ARRIVED,
    WAVE_EARLIEST,
    WAVE_EARLIEST_REASON,
    WAVE_END,
    WAVE_GROUP,
    WAVE_HELD,
    WAVE_LARGEST,
    WAVE_LARGEST_REASON,
    WAVE_LAST,
    WAVE_NUMBER,
    WAVE_POSITION,
    WAVE_PRIORITY,
    WAVE_REASON,
    WAVE_SIMD,
    WAVE_SINCE,
    WAVE_SLOT,
    WAVE_STALL,
    WAVE_START,
    WAVE_START_INTERVAL,
    WAVE_UNIT,
    ComputeUnit,
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
_VALU, _TRANS = int(Unit.VALU), int(Unit.TRANS)
_BRANCH, _INTERNAL = int(Unit.BRANCH), int(Unit.INTERNAL)
_SPARE_STALLS: Final = 64  # of one visit of a SIMD: two for each wave

_CATEGORIES: Final = (0, 0, 0, 1, 1, 2, 3, 4, 5, 6)
"""By Unit: of which at most one instruction issues in a turn; the last is not limited."""


@compiled
def start_group(cu: ComputeUnit, cycle: int) -> None:
    """Place the waves of the next workgroup, each on the SIMD that has the fewest."""
    machine = cu.machine
    group = machine[NEXT_GROUP]
    machine[NEXT_GROUP] += 1
    first = cu.groups[group, GROUP_WAVE]
    for index in range(first, cu.groups[group, GROUP_WAVES_END]):
        simd = 0
        for other in range(1, SIMDS):
            if machine[UNIT_RESIDENTS + other] < machine[UNIT_RESIDENTS + simd]:
                simd = other
        slot = machine[UNIT_RESIDENTS + simd]
        machine[UNIT_RESIDENTS + simd] += 1
        start = turn_after(machine, cycle + (index - first) * machine[WAVE_START_INTERVAL], simd)
        cu.resident[simd, slot], cu.wakes[simd, slot] = index, start
        wave = cu.waves[index]
        wave[WAVE_SIMD], wave[WAVE_SLOT] = simd, slot
        wave[WAVE_START] = wave[WAVE_SINCE] = start
        wave[WAVE_NUMBER] = cu.steps[wave[WAVE_POSITION]]["instruction"]
        wave[WAVE_UNIT] = cu.code[wave[WAVE_NUMBER], CODE_UNIT]
        machine[UNIT_TURN_AT + simd] = min(machine[UNIT_TURN_AT + simd], start)


@compiled
def turn_after(machine: Integers, cycle: int, simd: int) -> int:
    """The first cycle from `cycle` on in which the sequencer looks at a SIMD."""
    if machine[TURN] == SIMDS:
        return int(cycle + ((simd - cycle) & (SIMDS - 1)))
    return int(cycle + (simd - cycle) % machine[TURN])


@compiled
def note_stall(cu: ComputeUnit, index: int, cycle: int, reason: int) -> None:
    """The wave's next instruction cannot issue, from this cycle on for this reason; 0 ends the stall that is open."""
    wave = cu.waves[index]
    known = wave[WAVE_REASON]
    if known == reason:
        return
    if known != 0:
        stall = cu.stalls[wave[WAVE_STALL]]
        cycles = cycle - stall["first"]
        stall["cycles"] = cycles
        if cycles > wave[WAVE_LARGEST]:
            wave[WAVE_LARGEST], wave[WAVE_LARGEST_REASON] = cycles, known
    wave[WAVE_REASON] = reason
    if reason != 0:  # rows begin when stalls do, so they are in the order of their first cycles
        row = cu.machine[LOG_STALLS]
        cu.machine[LOG_STALLS] = row + 1
        wave[WAVE_STALL] = row
        stall = cu.stalls[row]
        stall["wave"], stall["instruction"] = index, wave[WAVE_NUMBER]
        stall["reason"], stall["first"] = reason, cycle


@compiled
def release_barrier(cu: ComputeUnit, group: int, cycle: int) -> None:
    """Let the waves of a workgroup go on if all that live stand at the barrier."""
    if cu.groups[group, GROUP_ARRIVED] == 0 or cu.groups[group, GROUP_ARRIVED] < cu.groups[group, GROUP_ALIVE]:
        return
    cu.groups[group, GROUP_ARRIVED] = 0
    wake = cycle + cu.machine[BARRIER_CYCLES]
    for index in range(cu.groups[group, GROUP_WAVE], cu.groups[group, GROUP_WAVES_END]):
        if cu.waves[index, WAVE_ARRIVED] == 1:
            cu.waves[index, WAVE_ARRIVED] = 2
            simd = cu.waves[index, WAVE_SIMD]
            for slot in range(cu.machine[UNIT_RESIDENTS + simd]):
                if cu.resident[simd, slot] == index:
                    cu.wakes[simd, slot] = wake
            turn = turn_after(cu.machine, wake, simd)
            cu.machine[UNIT_TURN_AT + simd] = min(cu.machine[UNIT_TURN_AT + simd], turn)


@compiled
def end_wave(cu: ComputeUnit, index: int, cycle: int) -> None:
    """A wave has ended: its slot is free, and after the last one of a workgroup the next workgroup starts."""
    wave, machine = cu.waves[index], cu.machine
    wave[WAVE_END] = cycle
    simd, group = wave[WAVE_SIMD], wave[WAVE_GROUP]
    machine[UNIT_PRIORITIES + simd] -= wave[WAVE_PRIORITY] > 0
    kept = 0
    for slot in range(machine[UNIT_RESIDENTS + simd]):
        if cu.resident[simd, slot] != index:
            cu.resident[simd, kept], cu.wakes[simd, kept] = cu.resident[simd, slot], cu.wakes[simd, slot]
            kept += 1
    machine[UNIT_RESIDENTS + simd] = kept
    cu.groups[group, GROUP_ALIVE] -= 1
    if cu.groups[group, GROUP_ALIVE] > 0:
        release_barrier(cu, group, cycle)
    elif machine[NEXT_GROUP] < len(cu.groups):
        start_group(cu, cycle + machine[GROUP_START_DELAY])


@compiled
def fetch_next(cu: ComputeUnit, wave: Integers, number: int, following: int, cycle: int) -> None:
    """What a branch, or its absence, does to the instruction that comes next."""
    one, machine = cu.code[number], cu.machine
    delay = 0
    line = UNIT_FETCHED + cu.code[following, CODE_LINE]
    if cu.code[following, CODE_ADDRESS] != one[CODE_END]:
        delay = machine[BRANCH_TAKEN]
        if machine[line] == 0:
            delay += machine[FETCH_MISS]
    elif one[CODE_UNIT] == _BRANCH:
        delay = machine[BRANCH_NOT_TAKEN]
    machine[line] = 1
    if delay > 0:
        wave[WAVE_EARLIEST], wave[WAVE_EARLIEST_REASON] = cycle + delay, _FETCH


@compiled
def issue(cu: ComputeUnit, index: int, simd: int, cycle: int) -> bool:
    """Issue the next instruction of a wave. Whether it was its last."""
    note_stall(cu, index, cycle, 0)
    wave, machine = cu.waves[index], cu.machine
    step, number = wave[WAVE_POSITION], wave[WAVE_NUMBER]
    one = cu.code[number]
    done = execute(cu, index, simd, number, cycle)
    event = cu.events[machine[LOG_EVENTS]]
    machine[LOG_EVENTS] += 1
    event["wave"], event["instruction"], event["step"] = index, number, step
    event["unit"], event["reason"] = one[CODE_UNIT], wave[WAVE_LARGEST_REASON]
    event["issue"], event["done"], event["stall"] = cycle, done, cycle - wave[WAVE_SINCE]
    wave[WAVE_LARGEST] = wave[WAVE_LARGEST_REASON] = 0
    wave[WAVE_SINCE] = cycle + machine[TURN]
    wave[WAVE_HELD] = -1
    action = one[CODE_ACTION]
    if action == _END or step == wave[WAVE_LAST]:
        end_wave(cu, index, cycle + machine[TURN])
        return True
    if action == _PRIORITY:
        machine[UNIT_PRIORITIES + simd] += np.int64(one[CODE_AMOUNT] > 0) - np.int64(wave[WAVE_PRIORITY] > 0)
        wave[WAVE_PRIORITY] = one[CODE_AMOUNT]
    following = cu.steps[step + 1]["instruction"]
    fetch_next(cu, wave, number, following, cycle)
    if action == _PAUSE and cycle + one[CODE_AMOUNT] > wave[WAVE_EARLIEST]:
        wave[WAVE_EARLIEST], wave[WAVE_EARLIEST_REASON] = cycle + one[CODE_AMOUNT], _NOP
    wave[WAVE_POSITION], wave[WAVE_NUMBER], wave[WAVE_UNIT] = step + 1, following, cu.code[following, CODE_UNIT]
    return False


@compiled
def passes_barrier(cu: ComputeUnit, index: int, simd: int, slot: int, cycle: int) -> bool:
    """Whether the wave may issue as far as barriers are concerned; if not, it waits for the others."""
    wave = cu.waves[index]
    if cu.code[wave[WAVE_NUMBER], CODE_ACTION] != _BARRIER:
        return True
    if wave[WAVE_ARRIVED] == 2:
        wave[WAVE_ARRIVED] = 0
        return True
    if wave[WAVE_ARRIVED] == 0:
        note_stall(cu, index, cycle, _AT_BARRIER)
        wave[WAVE_ARRIVED] = 1
        cu.wakes[simd, slot] = NEVER
        group = wave[WAVE_GROUP]
        cu.groups[group, GROUP_ARRIVED] += 1
        release_barrier(cu, group, cycle)
    return False


@compiled
def highest_priority(cu: ComputeUnit, simd: int) -> int:
    """Of the waves on a SIMD."""
    highest = 0
    if cu.machine[UNIT_PRIORITIES + simd] > 0:
        for slot in range(cu.machine[UNIT_RESIDENTS + simd]):
            highest = max(highest, cu.waves[cu.resident[simd, slot], WAVE_PRIORITY])
    return int(highest)


@compiled
def set_turn(machine: Integers, simd: int, cycle: int, soonest: int) -> None:
    """Set the next turn of a SIMD after one at a cycle, at which waves may have been woken for another as well."""
    turn = min(machine[UNIT_TURN_AT + simd], NEVER if soonest >= NEVER else turn_after(machine, soonest, simd))
    machine[UNIT_TURN_AT + simd] = turn if turn > cycle else turn_after(machine, cycle + 1, simd)


@compiled
def take_turns(
    cu: ComputeUnit, simd: int, cycle: int, highest: int, priority: int, used: int, soonest: int
) -> tuple[int, int]:
    """Let the waves of one priority issue. used: Categories of instructions that have issued. soonest: When one of the
    waves so far has to be looked at again. Returns both as they are then."""
    machine, resident, wakes = cu.machine, cu.resident[simd], cu.wakes[simd]
    vector_free, waiting = machine[UNIT_VECTOR_FREE + simd], False
    slot = 0
    while slot < machine[UNIT_RESIDENTS + simd]:
        wake = wakes[slot]
        if wake > cycle and (wake != FOR_VECTOR or vector_free > cycle):
            waiting = waiting or wake == FOR_VECTOR
            soonest = min(soonest, wake)
            slot += 1
            continue
        index = resident[slot]
        if highest > 0 and cu.waves[index, WAVE_PRIORITY] != priority:
            slot += 1
            continue
        unit = cu.waves[index, WAVE_UNIT]
        until, reason = held_until(cu, index, simd, unit, cycle)
        bit = 1 << _CATEGORIES[unit]
        if until > cycle:
            note_stall(cu, index, cycle, reason)
            if unit in (_VALU, _TRANS) and cu.waves[index, WAVE_HELD] <= cycle:
                wakes[slot], waiting = FOR_VECTOR, True
            else:
                wakes[slot], soonest = until, min(soonest, until)
        elif used & bit and unit != _INTERNAL:
            note_stall(cu, index, cycle, _ARBITRATION)
            wakes[slot] = cycle + machine[TURN]
            soonest = min(soonest, cycle + machine[TURN])
        elif passes_barrier(cu, index, simd, slot, cycle):
            used |= bit
            wakes[slot] = cycle + machine[TURN]
            ended = issue(cu, index, simd, cycle)
            vector_free = machine[UNIT_VECTOR_FREE + simd]
            if ended:
                continue  # the waves behind it moved up
            soonest = min(soonest, cycle + machine[TURN])
        slot += 1
    return used, min(soonest, vector_free) if waiting else soonest


@compiled
def run(cu: ComputeUnit, memory: Memory) -> bool:
    """Issue until all waves have ended. False: the log of stalls is nearly full; call it again with more room."""
    machine = cu.machine
    while True:
        simd, cycle = 0, machine[UNIT_TURN_AT]
        for other in range(1, SIMDS):
            if machine[UNIT_TURN_AT + other] < cycle:
                simd, cycle = other, machine[UNIT_TURN_AT + other]
        if cycle >= NEVER:
            return True
        if machine[LOG_STALLS] + _SPARE_STALLS > len(cu.stalls):
            return False
        machine[UNIT_TURN_AT + simd] = NEVER
        highest, used, soonest = highest_priority(cu, simd), 0, NEVER
        for priority in range(highest, -1, -1):
            used, soonest = take_turns(cu, simd, cycle, highest, priority, used, soonest)
        set_turn(machine, simd, cycle, soonest)
        if machine[REQUEST_WAVE] >= 0:
            serve_vector_memory(cu, memory)
        if machine[REQUEST_WAVE + SCALAR_REQUEST] >= 0:
            serve_scalar_memory(cu, memory)
