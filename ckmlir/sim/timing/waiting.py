"""From which cycle on a wave's next instruction could issue, and what holds it up until then."""

from __future__ import annotations

from typing import Final

import numpy as np

from ckmlir.sim.timing.classes import LGKM_LDS, LGKM_SMEM, VM, Action, Role
from ckmlir.sim.timing.compiled import compiled
from ckmlir.sim.timing.events import UNIT_BUSY, Reason, Unit
from ckmlir.sim.timing.machine import (
    CODE_ACTION,
    CODE_ADDED,
    CODE_COUNTS,
    CODE_LGKM,
    CODE_READY,
    CODE_UNIT,
    CODE_USES,
    CODE_USES_END,
    CODE_VM,
    CODE_WRITTEN,
    LGKM_LIMIT,
    LGKM_RING,
    NEVER,
    QUEUE_RING,
    REGISTERS_ISSUED,
    REGISTERS_WRITER,
    UNIT_FREE,
    UNIT_LDS_BEGIN,
    UNIT_LDS_PLACE,
    UNIT_MATRIX_FREE,
    UNIT_VECTOR_FREE,
    UNIT_VMEM_BEGIN,
    UNIT_VMEM_PLACE,
    VM_LIMIT,
    VM_RING,
    WAVE_EARLIEST,
    WAVE_EARLIEST_REASON,
    WAVE_HELD,
    WAVE_HELD_REASON,
    WAVE_LGKM,
    WAVE_LGKM_COUNT,
    WAVE_LGKM_REASON,
    WAVE_NUMBER,
    WAVE_QUEUED,
    WAVE_VM,
    WAVE_VM_COUNT,
    WAVE_VM_HEAD,
    WAVE_VM_LAST,
    ComputeUnit,
    Integers,
)  # fmt: skip

_FACTOR, _ACCUMULATOR = Role.FACTOR, Role.ACCUMULATOR
_WAIT: Final = Action.WAIT
_DEPENDENCY_VALU: Final = int(Reason.DEPENDENCY_VALU)
_DEPENDENCY_MFMA: Final = int(Reason.DEPENDENCY_MFMA)
_DEPENDENCY_TRANS: Final = int(Reason.DEPENDENCY_TRANS)
_WAIT_VMEM: Final = int(Reason.WAIT_VMEM)
_QUEUE_FULL: Final = int(Reason.QUEUE_FULL)
_MFMA, _VALU, _TRANS = int(Unit.MFMA), int(Unit.VALU), int(Unit.TRANS)
_SMEM, _VMEM, _LDS, _MESSAGE = int(Unit.SMEM), int(Unit.VMEM), int(Unit.LDS), int(Unit.MESSAGE)


@compiled
def retire(wave: Integers, cycle: int) -> None:
    """Let the counters of a wave go down by what is complete."""
    count, head = wave[WAVE_VM_COUNT], wave[WAVE_VM_HEAD]
    while count > 0 and wave[WAVE_VM + head] <= cycle:
        head = (head + 1) & (VM_RING - 1)
        count -= 1
    wave[WAVE_VM_COUNT], wave[WAVE_VM_HEAD] = count, head
    kept = 0
    for index in range(wave[WAVE_LGKM_COUNT]):
        if wave[WAVE_LGKM + index] > cycle:
            wave[WAVE_LGKM + kept] = wave[WAVE_LGKM + index]
            wave[WAVE_LGKM_REASON + kept] = wave[WAVE_LGKM_REASON + index]
            kept += 1
    wave[WAVE_LGKM_COUNT] = kept


@compiled
def vm_below(wave: Integers, allowed: int) -> int:
    """The cycle at which no more than `allowed` accesses to memory are under way; 0 if that is so already. They return
    in order."""
    over = wave[WAVE_VM_COUNT] - allowed
    if over <= 0:
        return 0
    return int(wave[WAVE_VM + ((wave[WAVE_VM_HEAD] + over - 1) & (VM_RING - 1))])


@compiled
def lgkm_below(wave: Integers, allowed: int) -> tuple[int, int]:
    """The same for LDS and scalar accesses, which return in any order, and the reason for waiting: what is last."""
    count = wave[WAVE_LGKM_COUNT]
    cycle, reason, last = 0, 0, -1
    if allowed == 0:  # all of them
        for index in range(count):
            if wave[WAVE_LGKM + index] > cycle:
                cycle, reason = wave[WAVE_LGKM + index], wave[WAVE_LGKM_REASON + index]
        return cycle, reason
    for _ in range(count - allowed):  # the next one to complete, as often as there are too many
        best, found = NEVER, -1
        for index in range(count):
            done = wave[WAVE_LGKM + index]
            later = done > cycle or (done == cycle and index > last)
            if later and done < best:
                best, found = done, index
        cycle, last = best, found
        reason = wave[WAVE_LGKM_REASON + found]
    return cycle, reason


@compiled
def ready_registers(cu: ComputeUnit, registers: Integers, number: int) -> tuple[int, int]:
    """The cycle at which all of a wave's registers are there that an instruction needs, and why to wait for them."""
    one = cu.code[number]
    cycle, reason = 0, 0
    for index in range(one[CODE_USES], one[CODE_USES_END]):
        group = cu.lists[index, 0]
        writer = registers[group, REGISTERS_WRITER]
        if writer < 0:
            continue
        role = cu.lists[index, 1]
        way = 0
        if role == _FACTOR:
            way = 1
        elif role == _ACCUMULATOR:
            way = 2 if cu.code[writer, CODE_WRITTEN] == one[CODE_ADDED] else 3
        ready = registers[group, REGISTERS_ISSUED] + cu.code[writer, CODE_READY + way]
        if ready > cycle:
            cycle = ready
            unit = cu.code[writer, CODE_UNIT]
            reason = _DEPENDENCY_MFMA if unit == _MFMA else _DEPENDENCY_TRANS if unit == _TRANS else _DEPENDENCY_VALU
    return cycle, reason


@compiled
def unit_free(machine: Integers, simd: int, unit: int) -> tuple[int, int]:
    """The cycle at which a unit takes the next instruction of a SIMD, and the reason to wait until then."""
    if unit <= _TRANS:
        vector = machine[UNIT_VECTOR_FREE + simd]
        if unit == _MFMA and machine[UNIT_MATRIX_FREE + simd] >= vector:
            return machine[UNIT_MATRIX_FREE + simd], UNIT_BUSY + _MFMA
        return vector, UNIT_BUSY + (_TRANS if unit == _TRANS else _VALU)
    if unit == _LDS:
        place = machine[UNIT_LDS_PLACE + simd]
        return machine[UNIT_LDS_BEGIN + simd * QUEUE_RING + place], UNIT_BUSY + _LDS
    if unit == _VMEM:
        place = machine[UNIT_VMEM_PLACE + simd]
        return machine[UNIT_VMEM_BEGIN + simd * QUEUE_RING + place], UNIT_BUSY + _VMEM
    if unit in (_SMEM, _MESSAGE):
        return machine[UNIT_FREE + unit], UNIT_BUSY + unit
    return 0, 0


@compiled
def hold(cu: ComputeUnit, index: int, cycle: int) -> None:
    """Note what holds up a wave's next instruction of what only the wave itself does: branches and nops, registers and
    counters (WAVE_HELD), and full counters (WAVE_QUEUED). That does not change until it issues."""
    wave = cu.waves[index]
    number = wave[WAVE_NUMBER]
    one = cu.code[number]
    until, reason, queued = wave[WAVE_EARLIEST], wave[WAVE_EARLIEST_REASON], 0
    counts = one[CODE_COUNTS]
    if one[CODE_ACTION] == _WAIT:
        retire(wave, cycle)
        other = vm_below(wave, np.int64(one[CODE_VM]))
        if other > until:
            until, reason = other, _WAIT_VMEM
        other, why = lgkm_below(wave, np.int64(one[CODE_LGKM]))
        if other > until:
            until, reason = other, why
    else:
        other, why = ready_registers(cu, cu.registers[index], number)
        if other > until:
            until, reason = other, why
        if counts != 0:
            retire(wave, cycle)
            if counts & VM:
                queued = vm_below(wave, cu.machine[VM_LIMIT] - 1)
            if counts & (LGKM_LDS | LGKM_SMEM):
                queued = max(queued, lgkm_below(wave, cu.machine[LGKM_LIMIT] - 1)[0])
    wave[WAVE_HELD], wave[WAVE_HELD_REASON], wave[WAVE_QUEUED] = until, reason, queued


@compiled
def held_until(cu: ComputeUnit, index: int, simd: int, unit: int, cycle: int) -> tuple[int, int]:
    """(first cycle at which a wave's next instruction, which needs a unit, could issue if no other wave does; the
    reason that ends last). Barriers and other waves are not considered."""
    wave = cu.waves[index]
    if wave[WAVE_HELD] < 0:
        hold(cu, index, cycle)
    until, reason = wave[WAVE_HELD], wave[WAVE_HELD_REASON]
    other, why = unit_free(cu.machine, simd, unit)
    if other > until:
        until, reason = other, why
    if wave[WAVE_QUEUED] > until:
        until, reason = wave[WAVE_QUEUED], _QUEUE_FULL
    return until, reason


@compiled
def add_vm(wave: Integers, done: int) -> int:
    """Count an access to memory; returns when the counter goes down again, which is not before the earlier ones."""
    done = max(done, wave[WAVE_VM_LAST])
    wave[WAVE_VM_LAST] = done
    place = (wave[WAVE_VM_HEAD] + wave[WAVE_VM_COUNT]) & (VM_RING - 1)
    wave[WAVE_VM + place] = done
    wave[WAVE_VM_COUNT] += 1
    return int(done)


@compiled
def add_lgkm(wave: Integers, done: int, reason: int) -> None:
    """Count an LDS or scalar access."""
    count = min(wave[WAVE_LGKM_COUNT], LGKM_RING - 1)
    wave[WAVE_LGKM + count] = done
    wave[WAVE_LGKM_REASON + count] = reason
    wave[WAVE_LGKM_COUNT] = count + 1
