"""Traces and timelines written down by hand: every cycle is known, so that what is computed from them is too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ckmlir.sim.decode import decode
from ckmlir.sim.timing.access_patterns import set_lanes
from ckmlir.sim.timing.events import EVENT, STALL, Reason, Timeline, Unit
from ckmlir.sim.timing.parameters import Parameters, load
from ckmlir.sim.timing.recording import ACCESS, NO_ADDRESS, STEP, AccessKind, Trace, TracedInstruction

# A kernel of the instructions below: a start, a loop from LOAD to BACK, and an end.
START, LOAD, READ, PRODUCT, BACK, STORE, END = range(7)
WORDS = {
    START: (0x02040505,),  # v_add_f32_e32 v2, v5, v2
    LOAD: (0xDC5C8000, 0x047F0002),  # global_load_dwordx4 v[4:7], v[2:3], off
    READ: (0xD9FE0000, 0x08000001),  # ds_read_b128 v[8:11], v1
    PRODUCT: (0xD3CC8000, 0x04021508),  # v_mfma_f32_32x32x8_f16 a[0:15], v[8:9], v[10:11], a[0:15]
    BACK: (0xBF85FFF8,),  # s_cbranch_scc1
    STORE: (0xDC7C8000, 0x007F0402),  # global_store_dwordx4 v[2:3], v[4:7], off
    END: (0xBF810000,),  # s_endpgm
}
UNITS = {
    START: Unit.VALU, LOAD: Unit.VMEM, READ: Unit.LDS, PRODUCT: Unit.MFMA, BACK: Unit.BRANCH, STORE: Unit.VMEM,
    END: Unit.INTERNAL,
}  # fmt: skip
PRODUCT_CYCLES, PRODUCT_OPERATIONS = 32, 2 * 32 * 32 * 8


def program(target: str) -> tuple[TracedInstruction, ...]:
    found, address = [], 0
    for number, words in WORDS.items():
        one = decode(b"".join(word.to_bytes(4, "little") for word in words), address, target)
        found.append(TracedInstruction(address, one.mnemonic, one, ("kernel.py", 10 + number) if number else None))
        address += one.size
    return tuple(found)


def made_trace(
    orders: Sequence[Sequence[int]],
    *,
    target: str = "gfx942",
    groups: Sequence[int] | None = None,
    grid: tuple[int, int, int] = (1, 1, 1),
    loads: Sequence[Sequence[np.ndarray]] | None = None,
    vector_registers: int = 128,
    lds_bytes: int = 0,
    threads: int = 64,
) -> Trace:
    """Waves that execute the instructions of `orders`. groups: the workgroup of each (default: all 0). loads: for each
    wave, the addresses of the lanes of its LOADs."""
    steps = np.zeros(sum(map(len, orders)), STEP)
    steps["wave"] = np.repeat(np.arange(len(orders)), [len(one) for one in orders])
    steps["instruction"] = np.concatenate([np.array(one) for one in orders])
    steps["access"] = -1
    rows, kinds = [], []
    given = [iter(one) for one in loads] if loads else []
    for step in steps:
        if step["instruction"] == READ or (loads and step["instruction"] == LOAD):
            step["access"], step["accesses"] = len(rows), 1
            is_lds = step["instruction"] == READ
            kinds.append(AccessKind.LDS if is_lds else AccessKind.MEMORY)
            rows.append(np.full(64, NO_ADDRESS, np.uint64) if is_lds else next(given[step["wave"]]))
    accesses = np.zeros(len(rows), ACCESS)
    accesses["bytes"], accesses["kind"] = 16, kinds
    patterns = set_lanes(accesses, np.array(rows, np.uint64).reshape(-1, 64))
    return Trace(
        target=target, kernel="kernel", program=program(target), steps=steps,
        wave_first=np.cumsum([0, *map(len, orders)]).astype(np.int64),
        groups=np.array(groups if groups is not None else [0] * len(orders), np.int64),
        accesses=accesses, patterns=patterns, grid=grid, block=(threads, 1, 1),
        vector_registers=vector_registers, scalar_registers=32, lds_bytes=lds_bytes,
    )  # fmt: skip


def made_timeline(
    trace: Trace,
    issue: Sequence[int],
    *,
    ends: Sequence[int] | None = None,
    stalls: Sequence[tuple[int, int, Reason, int, int]] = (),
    unit_busy: dict[Unit, int] | None = None,
    bytes: dict[str, int] | None = None,
    parameters: Parameters | None = None,
) -> Timeline:
    """Steps issue at the given cycles; a wave ends with its last unless `ends` says otherwise. Units are busy for as
    long as the instructions say: 32 cycles a PRODUCT, 8 a READ, 4 what else there is."""
    events = np.zeros(len(trace.steps), EVENT)
    events["wave"], events["instruction"] = trace.steps["wave"], trace.steps["instruction"]
    events["step"], events["issue"] = np.arange(len(events)), issue
    events["unit"] = [UNITS[one] for one in trace.steps["instruction"].tolist()]
    events["done"] = events["issue"] + 4
    events = events[np.argsort(events["issue"], kind="stable")]
    start = np.array([min(issue[first:]) for first in trace.wave_first[:-1]], np.int64)
    last = trace.wave_first[1:] - 1
    end = np.array(ends if ends is not None else [issue[one] for one in last], np.int64)
    busy = np.zeros(len(Unit), np.int64)
    cost = {PRODUCT: PRODUCT_CYCLES, READ: 8}
    for one in trace.steps["instruction"].tolist():
        busy[UNITS[one]] += cost.get(one, 4)
    for unit, cycles in (unit_busy or {}).items():
        busy[unit] = cycles
    is_lds = trace.accesses["kind"] == AccessKind.LDS
    return Timeline(
        trace=trace, parameters=parameters or load(trace.target), target=trace.target, events=events,
        stalls=np.array(list(stalls), STALL), cycles=int(end.max()), wave_simd=np.zeros(trace.waves, np.int32),
        wave_slot=np.zeros(trace.waves, np.int32), wave_start=start, wave_end=end,
        conflicts=np.where(is_lds, 2, 0).astype(np.int32), lds_cycles=np.where(is_lds, 8, 0).astype(np.int32),
        unit_busy=busy, bytes=dict(bytes or {}),
    )  # fmt: skip


def loop_timeline(
    trips: int = 8, before: int = 100, iteration: int = 40, after: int = 60, first_extra: int = 0, **options: Any
) -> Timeline:
    """One wave: `before` cycles, `trips` iterations (the first longer by `first_extra`), `after` cycles."""
    trace_options = {name: options.pop(name) for name in ("grid", "vector_registers", "lds_bytes") if name in options}
    order = [START, *[LOAD, READ, PRODUCT, BACK] * trips, STORE, END]
    issue = [0]
    for trip in range(trips):
        header = before + trip * iteration + (first_extra if trip else 0)
        issue += [header, header + 4, header + 8, header + 12]
    end = before + trips * iteration + first_extra + after
    return made_timeline(made_trace([order], **trace_options), [*issue, end - 4, end], **options)
