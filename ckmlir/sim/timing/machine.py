"""The state of a modelled compute unit, as arrays that compiled loops read and change, and the columns of those that
hold integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.classes import Code

if TYPE_CHECKING:
    from ckmlir.sim.timing.parameters import Parameters

Integers: TypeAlias = npt.NDArray[np.int64]
ShortIntegers: TypeAlias = npt.NDArray[np.int32]

NEVER: Final = 1 << 60
FOR_VECTOR: Final = NEVER + 1
"""In `ComputeUnit.wakes`: when the SIMD takes another vector instruction, which is all that the wave waits for."""
SIMDS: Final = 4
VM_RING: Final = 64
LGKM_RING: Final = 16
LATE_WRITES: Final = 64
QUEUE_RING: Final = 32

# -- code: what instructions are ---------------------------------------------------------------------------------------
CODE_UNIT, CODE_BUSY, CODE_HOLDS_VALU, CODE_READY = 0, 1, 2, 3  # READY: four columns
CODE_WRITTEN, CODE_ADDED = 7, 8
CODE_USES, CODE_USES_END, CODE_WRITES, CODE_WRITES_END = 9, 10, 11, 12
CODE_ACTION, CODE_AMOUNT, CODE_VM, CODE_LGKM, CODE_COUNTS, CODE_ADDRESS, CODE_END = 13, 14, 15, 16, 17, 18, 19
CODE_LINE = 20  # which line of code the instruction is in
CODE_COLUMNS: Final = 21

# -- waves -------------------------------------------------------------------------------------------------------------
WAVE_POSITION, WAVE_LAST, WAVE_GROUP, WAVE_SIMD, WAVE_SLOT = 0, 1, 2, 3, 4  # LAST: its last step
WAVE_START, WAVE_END = 5, 6
WAVE_SINCE = 7  # cycle from which its next instruction is next
WAVE_EARLIEST, WAVE_EARLIEST_REASON = 8, 9  # it cannot issue before, because of a branch or s_nop
WAVE_NUMBER = 10  # its next instruction
WAVE_REASON, WAVE_STALL = 11, 12  # the stall that is open: why, and its row
WAVE_LARGEST, WAVE_LARGEST_REASON = 13, 14  # the longest stall of its next instruction
WAVE_PRIORITY = 15
WAVE_ARRIVED = 16  # 0 not at a barrier, 1 waiting there, 2 may go on
WAVE_VM_HEAD, WAVE_VM_COUNT, WAVE_VM_LAST = 17, 18, 19  # a ring of cycles, in order of issue
WAVE_LGKM_COUNT, WAVE_LDS_LAST = 20, 21
WAVE_HELD, WAVE_HELD_REASON, WAVE_QUEUED = 22, 23, 24  # what holds its next instruction up; HELD -1: not known yet
WAVE_UNIT = 25  # which its next instruction needs
WAVE_VM = 26
WAVE_LGKM = WAVE_VM + VM_RING  # cycles, in no order
WAVE_LGKM_REASON = WAVE_LGKM + LGKM_RING
WAVE_COLUMNS: Final = WAVE_LGKM_REASON + LGKM_RING

REGISTERS_ISSUED, REGISTERS_WRITER = 0, 1  # when their last slow writer issued, and which instruction it is, or -1

# -- workgroups --------------------------------------------------------------------------------------------------------
GROUP_WAVE, GROUP_WAVES_END, GROUP_ALIVE, GROUP_ARRIVED = 0, 1, 2, 3

# -- machine: numbers of the model -------------------------------------------------------------------------------------
TURN, WAVE_START_INTERVAL, GROUP_START_DELAY, BRANCH_TAKEN, BRANCH_NOT_TAKEN, FETCH_LINE, FETCH_MISS = range(7)
VM_LIMIT, LGKM_LIMIT, LDS_LATENCY, LDS_PAIR_BYTES, LDS_WRITE_SETUP, LDS_EXCHANGE, LDS_QUEUE = range(7, 14)
VMEM_LANES, VMEM_BYTES, VMEM_QUEUE, BARRIER_CYCLES, MESSAGE_CYCLES = range(14, 19)
RULES: Final = {
    TURN: "compute_unit.turn", WAVE_START_INTERVAL: "compute_unit.wave_start_interval",
    GROUP_START_DELAY: "compute_unit.workgroup_start_delay", BRANCH_TAKEN: "branch.taken_cycles",
    BRANCH_NOT_TAKEN: "branch.not_taken_cycles", FETCH_LINE: "fetch.line_bytes", FETCH_MISS: "fetch.miss_cycles",
    VM_LIMIT: "vmem.limit", LGKM_LIMIT: "lgkm.limit", LDS_LATENCY: "lds.latency", LDS_PAIR_BYTES: "lds.pair_bytes",
    LDS_WRITE_SETUP: "lds.write_setup", LDS_EXCHANGE: "lds.exchange_cycles", LDS_QUEUE: "lds.queue",
    VMEM_LANES: "vmem.lanes", VMEM_BYTES: "vmem.bytes", VMEM_QUEUE: "vmem.queue", BARRIER_CYCLES: "barrier.cycles",
    MESSAGE_CYCLES: "message.cycles",
}  # fmt: skip
_AT_LEAST: Final = dict.fromkeys((TURN, FETCH_LINE, LDS_PAIR_BYTES, LDS_QUEUE, VMEM_LANES, VMEM_BYTES, VMEM_QUEUE), 1)
_AT_MOST: Final = {VM_LIMIT: VM_RING - 1, LGKM_LIMIT: LGKM_RING - 1, LDS_QUEUE: QUEUE_RING, VMEM_QUEUE: QUEUE_RING}

# -- machine: state of the units, in cycles from which they take the next instruction ----------------------------------
UNIT_MATRIX_FREE, UNIT_VECTOR_FREE = 20, 24  # of each SIMD
UNIT_PAIR_FREE = 28  # the buses of two SIMDs to LDS
UNIT_FREE = 30  # by Unit, of those that are there once
UNIT_BUSY_CYCLES = 40  # by Unit
UNIT_RESIDENTS, UNIT_TURN_AT = 50, 54  # waves on each SIMD; the turn in which to look at them next
UNIT_LDS_PLACE, UNIT_VMEM_PLACE = 72, 76  # of each SIMD, the next place in its rings
UNIT_PRIORITIES = 80  # for each SIMD, how many waves on it have a priority
UNIT_LATE_COUNT = 60
NEXT_GROUP, LOG_EVENTS, LOG_STALLS = 61, 62, 63
REQUEST_WAVE, REQUEST_STEP, REQUEST_CYCLE, REQUEST_EVENT = 64, 65, 66, 67  # to memory, of this turn; WAVE -1: none
SCALAR_REQUEST = 4  # columns from a vector request to a scalar one
UNIT_LDS_BEGIN = 84  # for each SIMD a ring: when its last LDS instructions began, and the same for vector memory
UNIT_VMEM_BEGIN = UNIT_LDS_BEGIN + SIMDS * QUEUE_RING
UNIT_LATE_CYCLE = UNIT_VMEM_BEGIN + SIMDS * QUEUE_RING  # writes to LDS that come when memory delivers
UNIT_LATE_COST = UNIT_LATE_CYCLE + LATE_WRITES
UNIT_FETCHED = UNIT_LATE_COST + LATE_WRITES  # from here on: a flag for each line of code that was executed

# -- lines of memory ---------------------------------------------------------------------------------------------------
MOST_LINES: Final = 128  # of an access: 64 lanes of 16 bytes, each on an edge


class ComputeUnit(NamedTuple):
    """What the loops work on.

    Attributes:
        code: A row for each instruction of the program (CODE_…). lists: (register group, role) pairs.
        steps, accesses, patterns: Those of the trace.
        lanes: Active lanes of each pattern. lds: Cycles of LDS for each access.
        waves: A row for each wave (WAVE_…). registers: For each wave and group of registers (REGISTERS_…).
        groups: A row for each workgroup (GROUP_…).
        machine: One row: numbers of the model (see `RULES`), then the state of the units (UNIT_…).
        resident: The waves on each SIMD, in order of age. wakes: The cycles at which to look at them again.
        lines: For each pattern the lines that it touches, from that of the base on, and lines_known: what they were
            found for (0: nothing yet) and how many there are.
        events, stalls: What is written down, EVENT and STALL rows; LOG_… count them in `machine`.
    """

    code: ShortIntegers
    lists: ShortIntegers
    steps: npt.NDArray[Any]
    accesses: npt.NDArray[Any]
    patterns: npt.NDArray[np.uint64]
    lanes: Integers
    lds: npt.NDArray[np.int32]
    waves: Integers
    registers: Integers
    groups: Integers
    machine: Integers
    resident: Integers
    wakes: Integers
    lines: Integers
    lines_known: Integers
    events: npt.NDArray[Any]
    stalls: npt.NDArray[Any]


def code_table(code: Code, parameters: Parameters) -> tuple[ShortIntegers, ShortIntegers]:
    """`code` and `lists`."""
    uses = np.stack([code.uses, code.roles], axis=1) if len(code.uses) else np.zeros((0, 2), np.int64)
    writes = np.stack([code.writes, np.zeros_like(code.writes)], axis=1)
    base = int(code.address.min())
    columns = {
        CODE_UNIT: code.unit, CODE_BUSY: code.busy, CODE_HOLDS_VALU: code.holds_valu,
        CODE_WRITTEN: code.written, CODE_ADDED: code.added,
        CODE_USES: code.uses_first[:-1], CODE_USES_END: code.uses_first[1:],
        CODE_WRITES: code.writes_first[:-1] + len(uses), CODE_WRITES_END: code.writes_first[1:] + len(uses),
        CODE_ACTION: code.action, CODE_AMOUNT: code.amount, CODE_VM: code.vm, CODE_LGKM: code.lgkm,
        CODE_COUNTS: code.counts, CODE_ADDRESS: code.address - base, CODE_END: code.address - base + code.size,
        CODE_LINE: (code.address - base) // max(1, parameters.integer("fetch.line_bytes")),
    }  # fmt: skip
    table = np.zeros((len(code.unit), CODE_COLUMNS), np.int32)
    for column, values in columns.items():
        table[:, column] = values
    table[:, CODE_READY : CODE_READY + 4] = code.ready
    lists: ShortIntegers = np.concatenate([uses, writes]).astype(np.int32)
    return table, lists


def new_machine(parameters: Parameters, code: ShortIntegers) -> Integers:
    """The numbers of the model, and units that have nothing to do."""
    rules = {number: parameters.integer(name) for number, name in RULES.items()}
    for number, least in _AT_LEAST.items():
        rules[number] = max(rules[number], least)
    for number, most in _AT_MOST.items():
        rules[number] = min(rules[number], most)
    lines = int(code[:, CODE_END].max()) // rules[FETCH_LINE] + 2
    machine = np.zeros(UNIT_FETCHED + lines, np.int64)
    for number, value in rules.items():
        machine[number] = value
    machine[UNIT_TURN_AT : UNIT_TURN_AT + SIMDS] = NEVER
    machine[REQUEST_WAVE] = machine[REQUEST_WAVE + SCALAR_REQUEST] = -1
    return machine


def new_waves(first: Integers, workgroup: Integers, groups: int) -> tuple[Integers, Integers]:
    """`waves` before their start, and `registers`. first: Of each wave's steps; workgroup: index of each wave's."""
    waves = np.zeros((len(workgroup), WAVE_COLUMNS), np.int64)
    waves[:, WAVE_POSITION], waves[:, WAVE_LAST] = first[:-1], first[1:] - 1
    waves[:, WAVE_GROUP] = workgroup
    for column in (WAVE_SIMD, WAVE_SLOT, WAVE_START, WAVE_END):
        waves[:, column] = -1
    waves[:, WAVE_HELD] = -1
    registers = np.zeros((len(workgroup), max(groups, 1), 2), np.int64)
    registers[:, :, REGISTERS_WRITER] = -1
    return waves, registers


def new_groups(workgroup: Integers) -> Integers:
    """Workgroups, none of which has started. The waves of one follow each other."""
    count = int(workgroup[-1]) + 1
    groups = np.zeros((count, 4), np.int64)
    bounds = np.searchsorted(workgroup, np.arange(count + 1))
    groups[:, GROUP_WAVE], groups[:, GROUP_WAVES_END] = bounds[:-1], bounds[1:]
    groups[:, GROUP_ALIVE] = np.diff(bounds)
    return groups
