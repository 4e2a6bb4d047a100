"""Byte offsets of all that handlers read and write: the state of a wave, of its workgroup, and of the instruction.

Three memory blocks, all plain bytes shared by Python and the compiled handlers:

- record: 64 bytes an instruction: the handler's address, an execution counter and six operands. A register operand is
  the byte offset of the register in the wave block, so that the handler need not know its register file.
- wave: scalar registers by encoding number, special registers, then 512 vector registers of 64 lanes, the second half
  of them AccVGPRs.
- context: what a workgroup's waves share: LDS, the table of allocations, code addresses, counters, the error found.
"""

from __future__ import annotations

from ckmlir.sim.decode.instruction import Operand

# -- record ----------------------------------------------------------------------------------------------------------
RECORD_BYTES = 64
RECORD_COUNT = 8
RECORD_OPERANDS = 16
MAX_OPERANDS = 6

# -- wave ------------------------------------------------------------------------------------------------------------
LANES = 64
SGPR = 0  # by encoding number: vcc 106, m0 124, exec 126
VCC, M0, EXEC = 4 * 106, 4 * 124, 4 * 126
SCC = 512  # u32, 0 or 1
HARDWARE_REGISTERS = 520  # u32 by s_getreg number; MODE is number 1
MODE, STATUS_REGISTER = HARDWARE_REGISTERS + 4 * 1, HARDWARE_REGISTERS + 4 * 2
VECTOR_SKIP = 28  # bit of MODE: vector instructions do nothing
RESUME = 648  # address of the record at which the wave goes on
CONTEXT = 656  # address of the workgroup's context
SCRATCH = 664  # address of lane 0's private memory
SCRATCH_BYTES = 672  # private bytes a lane
APERTURES = 680  # four u64: shared base and limit, private base and limit
WAVE_NUMBER = 712  # u32
STATUS = 716  # u32: how the wave stopped last (a Status)
VGPR = 1024
VGPR_BYTES = 4 * LANES
WAVE_BYTES = VGPR + 512 * VGPR_BYTES

# -- context: u64 each -----------------------------------------------------------------------------------------------
LDS_BASE, LDS_SIZE = 0, 8
ALLOCATIONS, ALLOCATION_COUNT = 16, 24  # pairs (first address, bytes), sorted, closed by a sentinel
CODE_BASE, CODE_SIZE, CODE_INDEX, RECORDS = 32, 40, 48, 56  # CODE_INDEX: i32 record number of each dword of code, or -1
BRANCH_BUDGET = 64  # branches that may still be taken before the launch is given up as endless
TIME = 72
READ_GLOBAL, WRITTEN_GLOBAL, READ_LDS, WRITTEN_LDS = 80, 88, 96, 104  # bytes
ERROR_KIND, ERROR_ADDRESS, ERROR_LANE, ERROR_SIZE, ERROR_RECORD, ERROR_WAVE = 112, 120, 128, 136, 144, 152
WAVES, WAVE_COUNT = 160, 168  # address of the first wave block, waves in the workgroup
WAVE_ORDER, WAVE_ORDER_ROWS = 176, 184  # rows of WAVE_COUNT u32: the order in which waves run, one row a round
ROUND = 192
TEMPLATE = 200  # address of the wave blocks as they are at the start
LDS_TEMPLATE = 208
GRID_X, GRID_Y = 216, 224
WORKGROUP_ID_SGPR = 232  # three i64: byte offset of the register for the id of each dimension, or -1
USED_VGPR_BYTES = 256  # bytes from the first VGPR that are set up, and the same for AccVGPRs
USED_AGPR_BYTES = 264
READ_SCALAR = 272  # bytes of scalar loads
TURN, ROUND_START, GROUP_START = 280, 288, 296  # a wave's run to its next barrier is a turn; turns count up from 1
# What checks need; `checks/layout.py` says what the addresses point to.
ALLOCATION_ATTRIBUTES = 304  # a row for each row of ALLOCATIONS
FINDINGS, FINDING_CAPACITY, FINDING_COUNT, FINDINGS_LOST = 312, 320, 328, 336
CHECKED = 344  # flags of the checks that the scheduler takes part in
LDS_CELLS = 352  # race cells of LDS, or 0
SHADOW_PROPERTIES, LDS_SHADOW = 360, 368  # of the allocation whose shadow was accessed last; shadow of LDS, or 0
CURRENT_GROUP = 376  # number of the workgroup that runs
# `checks/wait_layout.py`: accesses to LDS that were in flight at the last barrier, how many, and the chunks they touch.
WAIT_LATE, WAIT_LATE_COUNT, WAIT_LATE_CHUNKS = 384, 392, 400
STOP = 504  # a Stop: what the thread that launched wants
WAIT_CHUNK_SHIFT = 408  # a chunk of LDS has 1 << this many bytes; there are at most 64
RACE_GROUPS = 416  # the race check's table of groups (`checks/race_table.py`), or 0
# Where a recording goes (`step_recording.py`): rows of runs (and how many steps they are), of accesses and of patterns.
PATTERN_TABLE, RUN_ROWS, RUN_COUNT, STEP_CAPACITY, STEP_COUNT = 424, 432, 440, 448, 456
ACCESS_ROWS, ACCESS_CAPACITY, ACCESS_COUNT, PATTERN_ROWS, PATTERN_COUNT = 464, 472, 480, 488, 496
# Room for the instruction that executes; nothing in it outlives the instruction.
WORK_ADDRESSES = 512  # 64 i64: the lanes' host addresses of a memory access
WORK_ROWS = 1024  # four rows of 64 dwords: data on its way between memories or lanes
WORK_MATRIX_A = 2048  # elements of A (of sparse products also of B) as f32 or f64, 64 lanes a row, at most 32 rows
WORK_MATRIX_B = WORK_MATRIX_A + 32 * 256
WORK_MATRIX_C = WORK_MATRIX_B + 32 * 256  # 32 rows of 64 dwords: a C that partly overlaps D, or an accumulator in f64
WORK_ZEROS = WORK_MATRIX_C + 32 * 256  # four rows that nobody writes
# Workgroups that wait for each other (`interleaving.py`): whether a pause gives the workgroup up, and whether it has;
# for the race check the turns of each, how many there are, and the address of those that this one knows of by flags.
PAUSES = WORK_ZEROS + 4 * VGPR_BYTES
PAUSED, TURN_SPAN, FLAG_GROUPS, KNOWN_FLAGS = PAUSES + 8, PAUSES + 16, PAUSES + 24, PAUSES + 32
# Turns that end between accesses (`wave_turns.py`): their table, or 0, how many were taken, and what this one has left.
TURN_LENGTHS, TURNS_TAKEN, TURN_LEFT = PAUSES + 40, PAUSES + 48, PAUSES + 56
CONTEXT_BYTES = PAUSES + 64

# Apertures of flat addresses: LLVM only looks at the upper 32 bits (AMDGPU user guide, "Flat" address space).
SHARED_APERTURE = 0x0001_0000_0000_0000
PRIVATE_APERTURE = 0x0002_0000_0000_0000


class Status:
    """What a chain of handlers returns to the scheduler."""

    ENDED = 0
    BARRIER = 1
    FAILED = 2
    YIELDED = 3
    SWITCHED = 4


class Stop:
    """Values of STOP in the context; looked at wherever a wave branches and a workgroup begins."""

    NO = 0
    INTERRUPTED = 1
    TOO_LONG = 2


class ErrorKind:
    """Values of ERROR_KIND in the context."""

    NONE = 0
    GLOBAL_BOUNDS = 1
    LDS_BOUNDS = 2
    SCRATCH_BOUNDS = 3
    BAD_BRANCH = 4
    TRAP = 5
    ENDLESS = 6
    MISALIGNED = 7
    RECORDING_FULL = 8


_SPECIAL_SCALARS = {235: APERTURES, 236: APERTURES + 8, 237: APERTURES + 16, 238: APERTURES + 24, 253: SCC}


def scalar_offset(number: int) -> int | None:
    """Byte offset of a scalar register by encoding number; None for what is not storage (vccz, execz, lds_direct)."""
    return SGPR + 4 * number if number < 128 else _SPECIAL_SCALARS.get(number)


def register_offset(operand: Operand) -> int:
    """Byte offset in the wave block of a register operand."""
    if operand.kind == "s":
        offset = scalar_offset(operand.index)
        assert offset is not None
        return offset
    return VGPR + VGPR_BYTES * (operand.index + (256 if operand.kind == "a" else 0))
