"""Byte layout of what the wait check knows of a wave, WAITS bytes behind its block, and of an access to LDS.

Events of a counter are numbered from 1 as they issue. Per counter: how many issued, how many of those (the oldest) are
known to be complete, the last one of each kind that disturbs the order, and for each register the number of the last
event that writes it with the record of its instruction. A register is in flight while its number is above the number
known to be complete. Registers are numbered as in `analysis/registers.py`.

Memory is not cleared between workgroups: numbers go on, and all that an earlier workgroup issued is complete.
"""

from __future__ import annotations

from ckmlir.sim.decode.operands import WAIT_COUNTS

VM, LGKM = 0, 1
"""The counters. expcnt has no events here: on these chips only GDS instructions count in it, which do not run."""

MOST = WAIT_COUNTS["vmcnt"], WAIT_COUNTS["lgkmcnt"]
"""What a counter can hold, by counter."""

# u32 each, by counter.
ISSUED, DONE = 0, 8
LAST = {(VM, "FLAT"): 16, (LGKM, "SMEM"): 20, (LGKM, "FLAT"): 24, (LGKM, "LDS"): 28, (LGKM, "MESSAGE"): 32}
"""Where the number of the last event of a kind is kept. Only vector memory accesses are in vmcnt besides FLAT."""
LDS_COUNT = 40  # by counter: accesses to LDS ever entered in the ring
COPIES = 48  # u64: chunks of LDS that this wave's direct accesses in flight may touch

REGISTERS = 704
STAMPS, WRITERS = 64, 64 + 2 * 4 * REGISTERS  # by counter, a u32 a register
RING = 11_520  # by counter, ENTRIES accesses to LDS
ENTRIES = 64  # more than a counter holds

# An access to LDS.
ENTRY_BYTES = 320
ENTRY_NUMBER, ENTRY_COUNTER, ENTRY_RECORD, ENTRY_SIZE = 0, 4, 8, 12  # u32; size: bytes of a lane
ENTRY_MASK, ENTRY_CHUNKS = 16, 24  # u64
ENTRY_FLAGS, ENTRY_NEEDED, ENTRY_BARRIER, ENTRY_WAVE = 32, 36, 40, 44  # u32; the last three only of late accesses
ENTRY_OFFSETS = 64  # 64 u32, in LDS
READS, WRITES, DIRECT = 1, 2, 4  # flags; direct: without a register, counted by vmcnt

# The context's list of late accesses: room for all rings of a workgroup of 1024 work-items.
LATE_BYTES = 16 * 2 * ENTRIES * ENTRY_BYTES


def stamp(counter: int, register: int) -> int:
    """Where the number of the last event that writes a register is kept."""
    return STAMPS + 4 * (REGISTERS * counter + register)


def chunk_shift(lds_bytes: int) -> int:
    """Such that LDS has at most 64 chunks of 1 << shift bytes."""
    return max(0, (max(lds_bytes, 1) - 1).bit_length() - 6)


# The tag of a finding: which counter, the count that would have been enough, and the registers or the other wave.
TAG_NEEDED, TAG_FIRST, TAG_COUNT = 8, 32, 48  # first bits; counter in bit 0
TAG_WAVE, TAG_BARRIER = 16, 32
