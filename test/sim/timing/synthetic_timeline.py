"""Timelines made without the model: a loop of loads, LDS and matrix instructions on a machine of a few rules.

What shows timelines is tested with these, so that what they must show is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ckmlir.sim.decode import Instruction, decode
from ckmlir.sim.timing.access_patterns import set_lanes
from ckmlir.sim.timing.events import EVENT, STALL, Reason, Timeline, Unit
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.recording import ACCESS, STEP, Trace, TracedInstruction

TARGET = "gfx942"
SOURCE = ("kernels/example.py", 10)


@dataclass(frozen=True)
class Kind:
    """One instruction of the loop: its words, where it executes, cycles to its result, and what it waits for."""

    words: tuple[int, ...]
    unit: Unit
    latency: int
    waits: Reason = Reason.NOT_STALLED
    line: int = 0


LOAD = Kind((0xDC5C8000, 0x047F0002), Unit.VMEM, 500, line=1)  # global_load_dwordx4 v[4:7], v[2:3], off
WAIT_LOAD = Kind((0xBF8C0F70,), Unit.INTERNAL, 4, Reason.WAIT_VMEM, 2)  # s_waitcnt vmcnt(0)
WRITE = Kind((0xD9BE0000, 0x00000401), Unit.LDS, 40, line=2)  # ds_write_b128 v1, v[4:7]
WAIT_LDS = Kind((0xBF8CC07F,), Unit.INTERNAL, 4, Reason.WAIT_LDS, 3)  # s_waitcnt lgkmcnt(0)
BARRIER = Kind((0xBF8A0000,), Unit.INTERNAL, 4, Reason.BARRIER, 3)  # s_barrier
READ = Kind((0xD9FE0000, 0x08000001), Unit.LDS, 72, line=4)  # ds_read_b128 v[8:11], v1
PRODUCT = Kind((0xD3CC8000, 0x04021508), Unit.MFMA, 32, line=5)  # v_mfma_f32_32x32x8_f16 of v[8:9] and v[10:11]
BARRIER_CYCLES = 16
STEP_OF_LOOP = (LOAD, WAIT_LOAD, WRITE, WAIT_LDS, BARRIER, READ, READ, WAIT_LDS, *[PRODUCT] * 8, BARRIER)


def instruction(kind: Kind, address: int) -> Instruction:
    return decode(b"".join(word.to_bytes(4, "little") for word in kind.words), address, TARGET)


def synthetic(waves: int = 4, steps: int = 8, groups: int = 1) -> Timeline:
    """`waves` waves of each of `groups` workgroups, spread over four SIMDs, that run the loop `steps` times.

    The machine: a wave issues one instruction every 4 cycles, a matrix instruction keeps its SIMD's unit for all of its
    latency, LDS takes one access in 8 cycles, waves leave a barrier BARRIER_CYCLES after the last one has come.
    """
    count = waves * groups
    program = STEP_OF_LOOP
    next_at = [5 * wave for wave in range(count)]
    matrix_free, lds_free = [0] * 4, 0
    pending: list[dict[Unit, int]] = [{} for _ in range(count)]
    events, stalls = [], []
    place = [0] * count
    at_barrier: set[int] = set()

    def issue(wave: int, kind: Kind, cycle: int, reason: Reason) -> None:
        number, since = place[wave] % len(program), next_at[wave]
        if cycle > since:
            stalls.append((wave, number, reason, since, cycle - since))
        stalled = (reason if cycle > since else 0, cycle, cycle + kind.latency, cycle - since)
        events.append((wave, number, 0, kind.unit, *stalled))
        pending[wave][kind.unit] = max(cycle + kind.latency, pending[wave].get(kind.unit, 0))
        place[wave], next_at[wave] = place[wave] + 1, cycle + 4

    while any(at < steps * len(program) for at in place):
        wave = min(
            (at for at in range(count) if place[at] < steps * len(program) and at not in at_barrier),
            key=lambda at: next_at[at],
        )
        kind, now = program[place[wave] % len(program)], next_at[wave]
        if kind is BARRIER:
            at_barrier.add(wave)
            group = range(wave // waves * waves, (wave // waves + 1) * waves)
            if at_barrier >= set(group):
                for one in group:
                    issue(one, kind, now + BARRIER_CYCLES, Reason.BARRIER)
                at_barrier -= set(group)
        elif kind.waits in (Reason.WAIT_VMEM, Reason.WAIT_LDS):
            unit = Unit.VMEM if kind.waits is Reason.WAIT_VMEM else Unit.LDS
            issue(wave, kind, max(now, pending[wave].get(unit, 0)), kind.waits)
        elif kind.unit is Unit.MFMA:
            cycle = max(now, matrix_free[wave % 4])
            matrix_free[wave % 4] = cycle + kind.latency
            issue(wave, kind, cycle, Reason.UNIT_BUSY_MFMA)
        elif kind.unit is Unit.LDS:
            cycle = max(now, lds_free)
            lds_free = cycle + 8
            issue(wave, kind, cycle, Reason.UNIT_BUSY_LDS)
        else:
            issue(wave, kind, now, Reason.NOT_STALLED)
    return _timeline(np.array(sorted(events, key=lambda row: row[5]), EVENT), stalls, waves, groups)


def _timeline(events: np.ndarray, stalls: list[tuple[int, ...]], waves: int, groups: int) -> Timeline:
    count = waves * groups
    order = np.argsort(events["wave"], kind="stable")
    steps = np.zeros(len(events), STEP)
    steps["wave"], steps["instruction"], steps["lanes"] = events["wave"][order], events["instruction"][order], 64
    steps["access"] = -1
    events["step"][order] = np.arange(len(events), dtype=np.uint32)
    reads = np.flatnonzero(np.isin(events["unit"][order], [Unit.LDS, Unit.VMEM]))
    steps["access"][reads], steps["accesses"][reads] = np.arange(len(reads)), 1
    addresses = np.zeros((len(reads), 64), np.uint64) + 16 * np.arange(64, dtype=np.uint64)
    accesses = np.zeros(len(reads), ACCESS)
    patterns = set_lanes(accesses, addresses)
    conflicts = np.where(events["unit"][order][reads] == Unit.LDS, 2, 0).astype(np.int32)
    program, address = [], 0
    for kind in STEP_OF_LOOP:
        one = instruction(kind, address)
        program.append(TracedInstruction(address, one.mnemonic, one, (SOURCE[0], SOURCE[1] + kind.line), "tile op"))
        address += one.size
    first = np.searchsorted(steps["wave"], np.arange(count + 1)).astype(np.int64)
    trace = Trace(TARGET, "example", tuple(program), steps, first, np.repeat(np.arange(groups), waves), accesses,
                  patterns, (groups, 1, 1), (64 * waves, 1, 1), 128, 32, 4096)  # fmt: skip
    start = np.array([events["issue"][events["wave"] == wave].min() for wave in range(count)], np.int64)
    end = np.array([events["done"][events["wave"] == wave].max() for wave in range(count)], np.int64)
    return Timeline(
        trace=trace, parameters=load(TARGET), target=TARGET, events=events, stalls=np.array(stalls, STALL),
        cycles=int(events["done"].max()), wave_simd=(np.arange(count) % 4).astype(np.int32),
        wave_slot=(np.arange(count) // 4).astype(np.int32), wave_start=start, wave_end=end, conflicts=conflicts,
        lds_cycles=conflicts, unit_busy=np.zeros(len(Unit), np.int64),
    )  # fmt: skip
