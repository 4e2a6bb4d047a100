"""What happens when an instruction issues: its unit is busy, its result gets a cycle, counters go up.

Accesses to memory are only noted here, at most one vector and one scalar one a turn, and served when the turn is over.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ckmlir.sim.timing.access_patterns import AccessKind
from ckmlir.sim.timing.classes import LGKM_LDS, LGKM_SMEM, VM
from ckmlir.sim.timing.compiled import compiled
from ckmlir.sim.timing.events import Reason, Unit
from ckmlir.sim.timing.machine import (
    CODE_BUSY,
    CODE_COUNTS,
    CODE_HOLDS_VALU,
    CODE_READY,
    CODE_UNIT,
    CODE_WRITES,
    CODE_WRITES_END,
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
    TURN,
    UNIT_BUSY_CYCLES,
    UNIT_FREE,
    UNIT_LATE_COST,
    UNIT_LATE_COUNT,
    UNIT_LATE_CYCLE,
    UNIT_LDS_BEGIN,
    UNIT_LDS_PLACE,
    UNIT_MATRIX_FREE,
    UNIT_PAIR_FREE,
    UNIT_VECTOR_FREE,
    UNIT_VMEM_BEGIN,
    UNIT_VMEM_PLACE,
    VMEM_BYTES,
    VMEM_LANES,
    VMEM_QUEUE,
    WAVE_LDS_LAST,
    WAVE_POSITION,
    ComputeUnit,
    Integers,
)  # fmt: skip
from ckmlir.sim.timing.memory_hierarchy import REQUEST_BYTES, Memory, access, coalesce_into, scalar_access
from ckmlir.sim.timing.waiting import add_lgkm, add_vm

_WAIT_LDS: Final = int(Reason.WAIT_LDS)
_WAIT_SMEM: Final = int(Reason.WAIT_SMEM)
_MFMA, _TRANS = int(Unit.MFMA), int(Unit.TRANS)
_SMEM, _VMEM, _LDS, _MESSAGE = int(Unit.SMEM), int(Unit.VMEM), int(Unit.LDS), int(Unit.MESSAGE)
_LDS_ACCESS, _SCALAR_ACCESS = AccessKind.LDS, AccessKind.SCALAR


@compiled
def execute(cu: ComputeUnit, index: int, simd: int, number: int, cycle: int) -> int:
    """Give a wave's next instruction to its unit at a cycle; returns the cycle at which its result is there, where
    memory need not be asked."""
    one, machine = cu.code[number], cu.machine
    unit, busy = one[CODE_UNIT], one[CODE_BUSY]
    if unit <= _TRANS:
        machine[UNIT_BUSY_CYCLES + unit] += busy
        machine[UNIT_VECTOR_FREE + simd] = cycle + one[CODE_HOLDS_VALU]
        if unit == _MFMA:
            machine[UNIT_MATRIX_FREE + simd] = cycle + busy
        registers = cu.registers[index]
        for item in range(one[CODE_WRITES], one[CODE_WRITES_END]):
            group = cu.lists[item, 0]
            registers[group, REGISTERS_ISSUED], registers[group, REGISTERS_WRITER] = cycle, number
        return int(cycle + one[CODE_READY])
    if unit == _LDS:
        return _lds(cu, index, simd, number, cycle)
    if unit == _VMEM:
        _request(cu, REQUEST_WAVE, index, cycle)
        _enter_queue(
            machine, UNIT_VMEM_PLACE, UNIT_VMEM_BEGIN, VMEM_QUEUE, simd, max(cycle, machine[UNIT_FREE + _VMEM])
        )
        return int(cycle)
    machine[UNIT_BUSY_CYCLES + unit] += busy
    if unit == _SMEM:
        _request(cu, REQUEST_WAVE + SCALAR_REQUEST, index, cycle)
        machine[UNIT_FREE + unit] = cycle + busy
        return int(cycle)
    if unit == _MESSAGE:
        machine[UNIT_FREE + unit] = cycle + machine[MESSAGE_CYCLES]
        if one[CODE_COUNTS] & LGKM_SMEM:
            add_lgkm(cu.waves[index], cycle + machine[MESSAGE_CYCLES], _WAIT_SMEM)
        return int(cycle + machine[MESSAGE_CYCLES])
    return int(cycle + machine[TURN])


@compiled
def _enter_queue(machine: Integers, place_of: int, begin_of: int, length: int, simd: int, begin: int) -> None:
    """Note when the last instruction of a SIMD for a unit begins, in place of the one that has left its queue."""
    place = machine[place_of + simd]
    machine[begin_of + simd * QUEUE_RING + place] = begin
    machine[place_of + simd] = 0 if place + 1 == machine[length] else place + 1


@compiled
def _request(cu: ComputeUnit, place: int, index: int, cycle: int) -> None:
    cu.machine[place] = index
    cu.machine[place + REQUEST_STEP - REQUEST_WAVE] = cu.waves[index, WAVE_POSITION]
    cu.machine[place + REQUEST_CYCLE - REQUEST_WAVE] = cycle
    cu.machine[place + REQUEST_EVENT - REQUEST_WAVE] = cu.machine[LOG_EVENTS]


@compiled
def _lds(cu: ComputeUnit, index: int, simd: int, number: int, cycle: int) -> int:
    machine, wave = cu.machine, cu.waves[index]
    cost, bytes, setup = 0, 0, 0
    first, count = cu.steps[wave[WAVE_POSITION]]["access"], cu.steps[wave[WAVE_POSITION]]["accesses"]
    for row in range(first, first + count):
        one = cu.accesses[row]
        cost += cu.lds[row]
        bytes += one["bytes"] * cu.lanes[one["pattern"]]
        if one["store"]:
            setup = machine[LDS_WRITE_SETUP]
    if count == 0:  # exchanges between lanes
        cost, bytes = machine[LDS_EXCHANGE], 256
    bus = (bytes + machine[LDS_PAIR_BYTES] - 1) // machine[LDS_PAIR_BYTES] + setup
    begin = use_lds(machine, simd, cycle, cost, bus)
    _enter_queue(machine, UNIT_LDS_PLACE, UNIT_LDS_BEGIN, LDS_QUEUE, simd, begin)
    done = max(begin + max(cost, bus) + machine[LDS_LATENCY], wave[WAVE_LDS_LAST])
    if cu.code[number, CODE_COUNTS] & LGKM_LDS:
        wave[WAVE_LDS_LAST] = done
        add_lgkm(wave, done, _WAIT_LDS)
    return int(done)


@compiled
def use_lds(machine: Integers, simd: int, cycle: int, cost: int, bus: int) -> int:
    """Let LDS serve an access from a cycle on: `cost` cycles of its banks and `bus` of the SIMD's bus. Returns when it
    begins.

    While an access waits for its bus, banks serve those of the other bus: they are taken to be busy for the cycles that
    accesses cost, without holes.
    """
    free = machine[UNIT_FREE + _LDS]
    kept = 0
    for index in range(machine[UNIT_LATE_COUNT]):  # what memory has delivered meanwhile is written first
        delivered = machine[UNIT_LATE_CYCLE + index]
        if delivered <= cycle:
            free = max(free, delivered) + machine[UNIT_LATE_COST + index]
        else:
            machine[UNIT_LATE_CYCLE + kept] = delivered
            machine[UNIT_LATE_COST + kept] = machine[UNIT_LATE_COST + index]
            kept += 1
    machine[UNIT_LATE_COUNT] = kept
    pair = UNIT_PAIR_FREE + simd // 2
    begin = max(cycle, free, machine[pair])
    machine[UNIT_FREE + _LDS] = max(cycle, free) + cost
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
def serve_vector_memory(cu: ComputeUnit, memory: Memory) -> None:
    """Let memory answer the turn's vector access."""
    machine = cu.machine
    wave, step = cu.waves[machine[REQUEST_WAVE]], cu.steps[machine[REQUEST_STEP]]
    machine[REQUEST_WAVE] = -1
    begin = max(machine[REQUEST_CYCLE], machine[UNIT_FREE + _VMEM])
    busy = 64 // machine[VMEM_LANES]
    done, late = begin + busy, 0
    for row in range(step["access"], step["access"] + step["accesses"]):
        one = cu.accesses[row]
        pattern = one["pattern"]
        if one["kind"] == _LDS_ACCESS:
            late += cu.lds[row]
            continue
        is_store = one["store"] != 0
        if is_store:  # data goes with the addresses
            bytes = one["bytes"] * cu.lanes[pattern]
            busy = max(busy, (bytes + machine[VMEM_BYTES] - 1) // machine[VMEM_BYTES])
        count = _lines(cu, pattern, one["bytes"], one["base"] % np.uint64(REQUEST_BYTES))
        start = np.int64(one["base"] // np.uint64(REQUEST_BYTES))
        done = max(done, access(memory, begin + busy, 0, cu.lines[pattern], count, is_store, start))
    machine[UNIT_FREE + _VMEM] = begin + busy
    machine[UNIT_BUSY_CYCLES + _VMEM] += busy
    if late > 0:
        _write_later(machine, done, late)
        done += late
    counts = cu.code[step["instruction"], CODE_COUNTS]
    if counts & VM:
        done = add_vm(wave, done)
    if counts & LGKM_LDS:  # a flat access counts twice
        add_lgkm(wave, done, _WAIT_LDS)
    cu.events[machine[REQUEST_EVENT]]["done"] = done


@compiled
def _lines(cu: ComputeUnit, pattern: int, bytes: int, offset: int) -> int:
    """How many lines an access touches whose base lies at an offset in one; `cu.lines` has which."""
    known, what = cu.lines_known[pattern], np.int64(bytes) * REQUEST_BYTES + np.int64(offset) + 1
    if known[0] != what:
        known[0] = what
        known[1] = coalesce_into(cu.lines[pattern], cu.patterns[pattern], bytes, REQUEST_BYTES, np.int64(offset))
    return int(known[1])


@compiled
def serve_scalar_memory(cu: ComputeUnit, memory: Memory) -> None:
    """Let memory answer the turn's scalar access."""
    machine = cu.machine
    wave, step = cu.waves[machine[REQUEST_WAVE + SCALAR_REQUEST]], cu.steps[machine[REQUEST_STEP + SCALAR_REQUEST]]
    cycle = machine[REQUEST_CYCLE + SCALAR_REQUEST]
    machine[REQUEST_WAVE + SCALAR_REQUEST] = -1
    number = step["instruction"]
    done = cycle + cu.code[number, CODE_BUSY]
    for row in range(step["access"], step["access"] + step["accesses"]):
        one = cu.accesses[row]
        if one["kind"] == _SCALAR_ACCESS:
            done = max(done, scalar_access(memory, cycle, 0, np.int64(one["base"]), np.int64(one["bytes"])))
    if cu.code[number, CODE_COUNTS] & LGKM_SMEM:
        add_lgkm(wave, done, _WAIT_SMEM)
    cu.events[machine[REQUEST_EVENT + SCALAR_REQUEST]]["done"] = done
