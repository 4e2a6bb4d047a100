"""From which cycle on a wave's next instruction could issue, and what holds it up until then."""

from __future__ import annotations

from typing import Final

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
    LDS_QUEUE,
    LGKM_LIMIT,
    LGKM_RING,
    NEVER,
    QUEUE_RING,
    REGISTERS_ISSUED,
    REGISTERS_WRITER,
    STEP_INSTRUCTION,
    UNIT_FREE,
    UNIT_LDS_BEGIN,
    UNIT_LDS_ISSUED,
    UNIT_MATRIX_FREE,
    UNIT_VECTOR_FREE,
    UNIT_VMEM_BEGIN,
    UNIT_VMEM_ISSUED,
    VM_LIMIT,
    VM_RING,
    VMEM_QUEUE,
    WAVE_EARLIEST,
    WAVE_EARLIEST_REASON,
    WAVE_LGKM,
    WAVE_LGKM_COUNT,
    WAVE_LGKM_REASON,
    WAVE_POSITION,
    WAVE_SIMD,
    WAVE_VM,
    WAVE_VM_COUNT,
    WAVE_VM_HEAD,
    WAVE_VM_LAST,
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
def retire(waves: Integers, wave: int, cycle: int) -> None:
    """Let the counters of a wave go down by what is complete."""
    count, head = waves[wave, WAVE_VM_COUNT], waves[wave, WAVE_VM_HEAD]
    while count > 0 and waves[wave, WAVE_VM + head] <= cycle:
        head = (head + 1) % VM_RING
        count -= 1
    waves[wave, WAVE_VM_COUNT], waves[wave, WAVE_VM_HEAD] = count, head
    kept = 0
    for index in range(waves[wave, WAVE_LGKM_COUNT]):
        if waves[wave, WAVE_LGKM + index] > cycle:
            waves[wave, WAVE_LGKM + kept] = waves[wave, WAVE_LGKM + index]
            waves[wave, WAVE_LGKM_REASON + kept] = waves[wave, WAVE_LGKM_REASON + index]
            kept += 1
    waves[wave, WAVE_LGKM_COUNT] = kept


@compiled
def vm_below(waves: Integers, wave: int, allowed: int) -> int:
    """The cycle at which no more than `allowed` accesses to memory are under way; 0 if that is so already. They return
    in order."""
    over = waves[wave, WAVE_VM_COUNT] - allowed
    if over <= 0:
        return 0
    return int(waves[wave, WAVE_VM + (waves[wave, WAVE_VM_HEAD] + over - 1) % VM_RING])


@compiled
def lgkm_below(waves: Integers, wave: int, allowed: int) -> tuple[int, int]:
    """The same for LDS and scalar accesses, which return in any order, and the reason for waiting: what is last."""
    count = waves[wave, WAVE_LGKM_COUNT]
    cycle, reason, last = 0, 0, -1
    if allowed == 0:  # all of them
        for index in range(count):
            if waves[wave, WAVE_LGKM + index] > cycle:
                cycle, reason = waves[wave, WAVE_LGKM + index], waves[wave, WAVE_LGKM_REASON + index]
        return cycle, reason
    for _ in range(count - allowed):  # the next one to complete, as often as there are too many
        best, found = NEVER, -1
        for index in range(count):
            done = waves[wave, WAVE_LGKM + index]
            later = done > cycle or (done == cycle and index > last)
            if later and done < best:
                best, found = done, index
        cycle, last = best, found
        reason = waves[wave, WAVE_LGKM_REASON + found]
    return cycle, reason


@compiled
def ready_registers(code: Integers, lists: Integers, registers: Integers, wave: int, number: int) -> tuple[int, int]:
    """The cycle at which all registers are there that an instruction needs, and the reason to wait for them."""
    cycle, reason = 0, 0
    for index in range(code[number, CODE_USES], code[number, CODE_USES_END]):
        group = lists[index, 0]
        writer = registers[wave, group, REGISTERS_WRITER]
        if writer < 0:
            continue
        role = lists[index, 1]
        way = 0
        if role == _FACTOR:
            way = 1
        elif role == _ACCUMULATOR:
            way = 2 if code[writer, CODE_WRITTEN] == code[number, CODE_ADDED] else 3
        ready = registers[wave, group, REGISTERS_ISSUED] + code[writer, CODE_READY + way]
        if ready > cycle:
            cycle = ready
            unit = code[writer, CODE_UNIT]
            reason = _DEPENDENCY_MFMA if unit == _MFMA else _DEPENDENCY_TRANS if unit == _TRANS else _DEPENDENCY_VALU
    return cycle, reason


@compiled
def unit_free(code: Integers, machine: Integers, simd: int, number: int) -> tuple[int, int]:
    """The cycle at which the unit of an instruction takes it, and the reason to wait until then."""
    unit = code[number, CODE_UNIT]
    if unit <= _TRANS:
        vector = machine[UNIT_VECTOR_FREE + simd]
        if unit == _MFMA and machine[UNIT_MATRIX_FREE + simd] >= vector:
            return machine[UNIT_MATRIX_FREE + simd], UNIT_BUSY + _MFMA
        return vector, UNIT_BUSY + (_TRANS if unit == _TRANS else _VALU)
    if unit == _LDS:
        place = machine[UNIT_LDS_ISSUED + simd] % machine[LDS_QUEUE]
        return machine[UNIT_LDS_BEGIN + simd * QUEUE_RING + place], UNIT_BUSY + _LDS
    if unit == _VMEM:
        place = machine[UNIT_VMEM_ISSUED + simd] % machine[VMEM_QUEUE]
        return machine[UNIT_VMEM_BEGIN + simd * QUEUE_RING + place], UNIT_BUSY + _VMEM
    if unit in (_SMEM, _MESSAGE):
        return machine[UNIT_FREE + unit], UNIT_BUSY + unit
    return 0, 0


@compiled
def held_until(
    code: Integers, lists: Integers, steps: Integers, waves: Integers, registers: Integers, machine: Integers,
    wave: int, cycle: int,
) -> tuple[int, int]:  # fmt: skip
    """(first cycle at which the next instruction could issue if no other wave does, the reason that ends last).
    Barriers and other waves are not considered."""
    number = steps[waves[wave, WAVE_POSITION], STEP_INSTRUCTION]
    until, reason = waves[wave, WAVE_EARLIEST], waves[wave, WAVE_EARLIEST_REASON]
    counts = code[number, CODE_COUNTS]
    if counts != 0 or code[number, CODE_ACTION] == _WAIT:
        retire(waves, wave, cycle)
    if code[number, CODE_ACTION] == _WAIT:
        other = vm_below(waves, wave, code[number, CODE_VM])
        if other > until:
            until, reason = other, _WAIT_VMEM
        other, why = lgkm_below(waves, wave, code[number, CODE_LGKM])
        if other > until:
            until, reason = other, why
        return until, reason
    other, why = ready_registers(code, lists, registers, wave, number)
    if other > until:
        until, reason = other, why
    other, why = unit_free(code, machine, waves[wave, WAVE_SIMD], number)
    if other > until:
        until, reason = other, why
    if counts & VM:
        other = vm_below(waves, wave, machine[VM_LIMIT] - 1)
        if other > until:
            until, reason = other, _QUEUE_FULL
    if counts & (LGKM_LDS | LGKM_SMEM):
        other, why = lgkm_below(waves, wave, machine[LGKM_LIMIT] - 1)
        if other > until:
            until, reason = other, _QUEUE_FULL
    return until, reason


@compiled
def add_vm(waves: Integers, wave: int, done: int) -> int:
    """Count an access to memory; returns when the counter goes down again, which is not before the earlier ones."""
    done = max(done, waves[wave, WAVE_VM_LAST])
    waves[wave, WAVE_VM_LAST] = done
    place = (waves[wave, WAVE_VM_HEAD] + waves[wave, WAVE_VM_COUNT]) % VM_RING
    waves[wave, WAVE_VM + place] = done
    waves[wave, WAVE_VM_COUNT] += 1
    return done


@compiled
def add_lgkm(waves: Integers, wave: int, done: int, reason: int) -> None:
    """Count an LDS or scalar access."""
    count = min(waves[wave, WAVE_LGKM_COUNT], LGKM_RING - 1)
    waves[wave, WAVE_LGKM + count] = done
    waves[wave, WAVE_LGKM_REASON + count] = reason
    waves[wave, WAVE_LGKM_COUNT] = count + 1
