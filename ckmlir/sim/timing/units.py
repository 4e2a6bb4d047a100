"""What happens when an instruction issues: its unit is busy, its result gets a cycle, counters go up.

Accesses to memory are only noted here, at most one vector and one scalar one a turn, and served when the turn is over.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.classes import LGKM_LDS, LGKM_SMEM, VM
from ckmlir.sim.timing.compiled import compiled
from ckmlir.sim.timing.events import Reason, Unit
from ckmlir.sim.timing.machine import (
    ACCESS_BYTES,
    ACCESS_KIND,
    ACCESS_LANES,
    ACCESS_LDS,
    ACCESS_STORE,
    CODE_BUSY,
    CODE_COUNTS,
    CODE_HOLDS_VALU,
    CODE_READY,
    CODE_UNIT,
    CODE_WRITES,
    CODE_WRITES_END,
    EVENT_DONE,
    LATE_WRITES,
    LDS_EXCHANGE,
    LDS_LATENCY,
    LDS_PAIR_BYTES,
    LDS_QUEUE,
    LDS_WRITE_SETUP,
    LOG_EVENTS,
    MESSAGE_CYCLES,
    QUEUE_RING,
    REGISTERS_ISSUED,
    REGISTERS_WRITER,
    REQUEST_CYCLE,
    REQUEST_EVENT,
    REQUEST_STEP,
    REQUEST_WAVE,
    SCALAR_REQUEST,
    STEP_ACCESS,
    STEP_ACCESS_END,
    STEP_INSTRUCTION,
    TURN,
    UNIT_BUSY_CYCLES,
    UNIT_FREE,
    UNIT_LATE_COST,
    UNIT_LATE_COUNT,
    UNIT_LATE_CYCLE,
    UNIT_LDS_BEGIN,
    UNIT_LDS_ISSUED,
    UNIT_MATRIX_FREE,
    UNIT_PAIR_FREE,
    UNIT_VECTOR_FREE,
    UNIT_VMEM_BEGIN,
    UNIT_VMEM_ISSUED,
    VMEM_BYTES,
    VMEM_LANES,
    VMEM_QUEUE,
    WAVE_LDS_LAST,
    WAVE_POSITION,
    WAVE_SIMD,
    Integers,
)  # fmt: skip
from ckmlir.sim.timing.memory_hierarchy import REQUEST_BYTES, Memory, access, coalesce_into, scalar_access
from ckmlir.sim.timing.recording import AccessKind
from ckmlir.sim.timing.waiting import add_lgkm, add_vm

_WAIT_LDS: Final = int(Reason.WAIT_LDS)
_WAIT_SMEM: Final = int(Reason.WAIT_SMEM)
_MFMA, _TRANS = int(Unit.MFMA), int(Unit.TRANS)
_SMEM, _VMEM, _LDS, _MESSAGE = int(Unit.SMEM), int(Unit.VMEM), int(Unit.LDS), int(Unit.MESSAGE)
_LDS_ACCESS, _SCALAR_ACCESS = AccessKind.LDS, AccessKind.SCALAR


@compiled
def execute(
    code: Integers, lists: Integers, steps: Integers, accesses: Integers, waves: Integers, registers: Integers,
    machine: Integers, wave: int, cycle: int,
) -> int:  # fmt: skip
    """Give the wave's next instruction to its unit at a cycle; returns the cycle at which its result is there, where
    memory need not be asked."""
    step = waves[wave, WAVE_POSITION]
    number = steps[step, STEP_INSTRUCTION]
    unit, simd, busy = code[number, CODE_UNIT], waves[wave, WAVE_SIMD], code[number, CODE_BUSY]
    if unit <= _TRANS:
        machine[UNIT_BUSY_CYCLES + unit] += busy
        machine[UNIT_VECTOR_FREE + simd] = cycle + code[number, CODE_HOLDS_VALU]
        if unit == _MFMA:
            machine[UNIT_MATRIX_FREE + simd] = cycle + busy
        for index in range(code[number, CODE_WRITES], code[number, CODE_WRITES_END]):
            registers[wave, lists[index, 0], REGISTERS_ISSUED] = cycle
            registers[wave, lists[index, 0], REGISTERS_WRITER] = number
        return int(cycle + code[number, CODE_READY])
    if unit == _LDS:
        return _lds(code, steps, accesses, waves, machine, wave, cycle)
    if unit == _VMEM:
        _request(machine, REQUEST_WAVE, wave, step, cycle)
        begin = max(cycle, machine[UNIT_FREE + _VMEM])
        place = machine[UNIT_VMEM_ISSUED + simd] % machine[VMEM_QUEUE]
        machine[UNIT_VMEM_BEGIN + simd * QUEUE_RING + place] = begin
        machine[UNIT_VMEM_ISSUED + simd] += 1
        return int(cycle)
    machine[UNIT_BUSY_CYCLES + unit] += busy
    if unit == _SMEM:
        _request(machine, REQUEST_WAVE + SCALAR_REQUEST, wave, step, cycle)
        machine[UNIT_FREE + unit] = cycle + busy
        return int(cycle)
    if unit == _MESSAGE:
        machine[UNIT_FREE + unit] = cycle + machine[MESSAGE_CYCLES]
        if code[number, CODE_COUNTS] & LGKM_SMEM:
            add_lgkm(waves, wave, cycle + machine[MESSAGE_CYCLES], _WAIT_SMEM)
        return int(cycle + machine[MESSAGE_CYCLES])
    return int(cycle + machine[TURN])


@compiled
def _request(machine: Integers, place: int, wave: int, step: int, cycle: int) -> None:
    machine[place] = wave
    machine[place + REQUEST_STEP - REQUEST_WAVE] = step
    machine[place + REQUEST_CYCLE - REQUEST_WAVE] = cycle
    machine[place + REQUEST_EVENT - REQUEST_WAVE] = machine[LOG_EVENTS]


@compiled
def _lds(
    code: Integers, steps: Integers, accesses: Integers, waves: Integers, machine: Integers, wave: int, cycle: int
) -> int:
    step = waves[wave, WAVE_POSITION]
    cost, bytes, setup = 0, 0, 0
    for row in range(steps[step, STEP_ACCESS], steps[step, STEP_ACCESS_END]):
        cost += accesses[row, ACCESS_LDS]
        bytes += accesses[row, ACCESS_BYTES] * accesses[row, ACCESS_LANES]
        if accesses[row, ACCESS_STORE]:
            setup = machine[LDS_WRITE_SETUP]
    if steps[step, STEP_ACCESS] == steps[step, STEP_ACCESS_END]:  # exchanges between lanes
        cost, bytes = machine[LDS_EXCHANGE], 256
    pair_bytes = machine[LDS_PAIR_BYTES]
    bus = (bytes + pair_bytes - 1) // pair_bytes + setup
    simd = waves[wave, WAVE_SIMD]
    begin = use_lds(machine, simd, cycle, cost, bus)
    place = machine[UNIT_LDS_ISSUED + simd] % machine[LDS_QUEUE]
    machine[UNIT_LDS_BEGIN + simd * QUEUE_RING + place] = begin
    machine[UNIT_LDS_ISSUED + simd] += 1
    done = max(begin + max(cost, bus) + machine[LDS_LATENCY], waves[wave, WAVE_LDS_LAST])
    if code[steps[step, STEP_INSTRUCTION], CODE_COUNTS] & LGKM_LDS:
        waves[wave, WAVE_LDS_LAST] = done
        add_lgkm(waves, wave, done, _WAIT_LDS)
    return int(done)


@compiled
def use_lds(machine: Integers, simd: int, cycle: int, cost: int, bus: int) -> int:
    """Let LDS serve an access from a cycle on: `cost` cycles of its banks and `bus` of the SIMD's bus. Returns when it
    begins.

    While an access waits for its bus, banks serve those of the other bus: they are taken to be busy for the cycles that
    accesses cost, without holes.
    """
    kept = 0
    for index in range(machine[UNIT_LATE_COUNT]):  # what memory has delivered meanwhile is written first
        delivered = machine[UNIT_LATE_CYCLE + index]
        if delivered <= cycle:
            machine[UNIT_FREE + _LDS] = max(machine[UNIT_FREE + _LDS], delivered) + machine[UNIT_LATE_COST + index]
        else:
            machine[UNIT_LATE_CYCLE + kept] = delivered
            machine[UNIT_LATE_COST + kept] = machine[UNIT_LATE_COST + index]
            kept += 1
    machine[UNIT_LATE_COUNT] = kept
    pair = UNIT_PAIR_FREE + simd // 2
    begin = max(cycle, machine[UNIT_FREE + _LDS], machine[pair])
    machine[UNIT_FREE + _LDS] = max(cycle, machine[UNIT_FREE + _LDS]) + cost
    machine[pair] = begin + max(cost, bus)
    machine[UNIT_BUSY_CYCLES + _LDS] += cost
    return int(begin)


@compiled
def _write_later(machine: Integers, cycle: int, cost: int) -> None:
    """Note that LDS will be busy with what memory delivers at a cycle."""
    machine[UNIT_BUSY_CYCLES + _LDS] += cost
    count = machine[UNIT_LATE_COUNT]
    if count == LATE_WRITES:
        machine[UNIT_FREE + _LDS] += cost
        return
    machine[UNIT_LATE_CYCLE + count] = cycle
    machine[UNIT_LATE_COST + count] = cost
    machine[UNIT_LATE_COUNT] = count + 1


@compiled
def serve_vector_memory(
    code: Integers, steps: Integers, accesses: Integers, addresses: npt.NDArray[np.uint64], waves: Integers,
    machine: Integers, memory: Memory, lines: Integers, events: Integers,
) -> None:  # fmt: skip
    """Let memory answer the turn's vector access. `lines` is room for those of one access."""
    wave, step = machine[REQUEST_WAVE], machine[REQUEST_STEP]
    machine[REQUEST_WAVE] = -1
    begin = max(machine[REQUEST_CYCLE], machine[UNIT_FREE + _VMEM])
    busy = 64 // machine[VMEM_LANES]
    done, late = begin + busy, 0
    for row in range(steps[step, STEP_ACCESS], steps[step, STEP_ACCESS_END]):
        if accesses[row, ACCESS_KIND] == _LDS_ACCESS:
            late += accesses[row, ACCESS_LDS]
            continue
        is_store = accesses[row, ACCESS_STORE] != 0
        if is_store:  # data goes with the addresses
            bytes = accesses[row, ACCESS_BYTES] * accesses[row, ACCESS_LANES]
            busy = max(busy, (bytes + machine[VMEM_BYTES] - 1) // machine[VMEM_BYTES])
        count = coalesce_into(lines, addresses[row], accesses[row, ACCESS_BYTES], REQUEST_BYTES)
        done = max(done, access(memory, begin + busy, 0, lines, count, is_store))
    machine[UNIT_FREE + _VMEM] = begin + busy
    machine[UNIT_BUSY_CYCLES + _VMEM] += busy
    if late > 0:
        _write_later(machine, done, late)
        done += late
    counts = code[steps[step, STEP_INSTRUCTION], CODE_COUNTS]
    if counts & VM:
        done = add_vm(waves, wave, done)
    if counts & LGKM_LDS:  # a flat access counts twice
        add_lgkm(waves, wave, done, _WAIT_LDS)
    events[machine[REQUEST_EVENT], EVENT_DONE] = done


@compiled
def serve_scalar_memory(
    code: Integers, steps: Integers, accesses: Integers, addresses: npt.NDArray[np.uint64], waves: Integers,
    machine: Integers, memory: Memory, events: Integers,
) -> None:  # fmt: skip
    """Let memory answer the turn's scalar access."""
    wave, step = machine[REQUEST_WAVE + SCALAR_REQUEST], machine[REQUEST_STEP + SCALAR_REQUEST]
    cycle = machine[REQUEST_CYCLE + SCALAR_REQUEST]
    machine[REQUEST_WAVE + SCALAR_REQUEST] = -1
    number = steps[step, STEP_INSTRUCTION]
    done = cycle + code[number, CODE_BUSY]
    for row in range(steps[step, STEP_ACCESS], steps[step, STEP_ACCESS_END]):
        if accesses[row, ACCESS_KIND] == _SCALAR_ACCESS:
            first = np.int64(addresses[row, 0])
            done = max(done, scalar_access(memory, cycle, 0, first, accesses[row, ACCESS_BYTES]))
    if code[number, CODE_COUNTS] & LGKM_SMEM:
        add_lgkm(waves, wave, done, _WAIT_SMEM)
    events[machine[REQUEST_EVENT + SCALAR_REQUEST], EVENT_DONE] = done
