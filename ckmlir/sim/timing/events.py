"""What the model says about a run: events, stalls and the timeline that holds them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

if TYPE_CHECKING:
    from ckmlir.sim.timing.parameters import Parameters
    from ckmlir.sim.timing.recording import Trace


class Unit(IntEnum):
    """The part of a compute unit that executes an instruction. MFMA, VALU and TRANS are there once a SIMD, the others
    once a compute unit; INTERNAL is executed where instructions wait to be issued (s_waitcnt, s_nop, s_barrier)."""

    MFMA = 0
    VALU = 1
    TRANS = 2
    SALU = 3
    SMEM = 4
    VMEM = 5
    LDS = 6
    BRANCH = 7
    MESSAGE = 8
    INTERNAL = 9


class Reason(IntEnum):
    """Why a wave does not issue its next instruction. UNIT_BUSY_x is UNIT_BUSY + Unit.x."""

    NOT_STALLED = 0
    DEPENDENCY_VALU = 1
    DEPENDENCY_MFMA = 2
    DEPENDENCY_TRANS = 3
    WAIT_VMEM = 4
    WAIT_LDS = 5
    WAIT_SMEM = 6
    ARBITRATION = 7
    BARRIER = 8
    NOP = 9
    INSTRUCTION_FETCH = 10
    QUEUE_FULL = 11
    NO_WAVE = 12
    UNIT_BUSY_MFMA = 16
    UNIT_BUSY_VALU = 17
    UNIT_BUSY_TRANS = 18
    UNIT_BUSY_SALU = 19
    UNIT_BUSY_SMEM = 20
    UNIT_BUSY_VMEM = 21
    UNIT_BUSY_LDS = 22
    UNIT_BUSY_BRANCH = 23
    UNIT_BUSY_MESSAGE = 24


UNIT_BUSY: Final = 16

EVENT: Final = np.dtype(
    [
        ("wave", "<u4"),  # index in the trace
        ("instruction", "<u4"),  # index in trace.program
        ("step", "<u4"),  # index in trace.steps
        ("unit", "u1"),
        ("reason", "u1"),  # the largest part of `stall`
        ("issue", "<i8"),  # cycle
        ("done", "<i8"),  # cycle at which the result is there; of a store, at which it is acknowledged
        ("stall", "<i8"),  # cycles between being next and issuing
    ]
)
"""One instruction of one wave. Events are in order of issue."""

STALL: Final = np.dtype(
    [("wave", "<u4"), ("instruction", "<u4"), ("reason", "u1"), ("first", "<i8"), ("cycles", "<i8")]
)
"""A stretch of cycles in which a wave could not issue `instruction` for one reason."""


class Timeline(Struct, frozen=True):
    """One compute unit executing the workgroups of a trace, as the model sees it.

    Attributes:
        trace: What was executed.
        parameters: The numbers used, `target` the chip.
        events: EVENT rows, one a step of the trace, in order of issue.
        stalls: STALL rows in order of their first cycle.
        cycles: From the first wave's start to the last one's end, memory that was still on its way included.
        wave_simd, wave_slot, wave_start, wave_end: For each wave of the trace: SIMD, slot there, cycles; -1 for one
            that never started.
        conflicts: For each row of trace.accesses, the cycles that bank conflicts add to an LDS access (0 elsewhere).
        lds_cycles: The same rows: cycles that the access keeps the LDS unit busy.
        unit_busy: Cycles that each Unit was busy, summed over the SIMDs where there is one a SIMD.
        bytes: Bytes moved by level ("lds", "l1", "l2", "mall", "hbm" and what else the memory model counts).
        memory: Counters of the memory model.
    """

    trace: Trace
    parameters: Parameters
    target: str
    events: npt.NDArray[Any]
    stalls: npt.NDArray[Any]
    cycles: int
    wave_simd: npt.NDArray[np.int32]
    wave_slot: npt.NDArray[np.int32]
    wave_start: npt.NDArray[np.int64]
    wave_end: npt.NDArray[np.int64]
    conflicts: npt.NDArray[np.int32]
    lds_cycles: npt.NDArray[np.int32]
    unit_busy: npt.NDArray[np.int64]
    bytes: dict[str, int] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
