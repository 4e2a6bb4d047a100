"""Loads that go from memory to LDS without a register: buffer_load … lds, global_load_lds_* and scratch_load_lds_*.

AMD CDNA3 ISA, section 9.1.9: LDS address = M0[15:0] + instruction offset + lane * 4, for active lanes. The wide forms
of gfx950 write 12 or 16 bytes a lane, at lane * 12 or lane * 16; its LDS is larger than 64 KiB, so more bits of M0
count.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.buffer_access import OFFSET, BufferLanes, load_into
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.memory_access import (
    check_allocated,
    checked_scratch_addresses,
    count_bytes,
    dword_by_dword,
    global_addresses,
    lds_addresses,
    low_word,
    preload,
    transfer,
)  # fmt: skip


def write_to_lds(b: HandlerBuilder, access: Access, offset: str) -> None:
    """Store the work rows to LDS, each lane to its place."""
    rows = b.work(state.WORK_ROWS)
    width = 4 * access.dwords
    start = b.assign(f"and i32 {b.load_scalar(state.M0, U32)}, {0x3FFFF}")
    places = b.lane() * width + b.splat(U32, start)
    exec = b.exec_bits()
    lds_addresses(b, places, low_word(b, offset), exec, width)
    transfer(b, Access(width), rows, exec, store=True)
    count_bytes(b, state.WRITTEN_LDS, exec, width)


def buffer_to_lds(b: HandlerBuilder, access: Access) -> None:
    """Slots as for a buffer load; slot 0 is unused. Lanes out of the resource's range write 0."""
    lanes = BufferLanes(b)
    load_into(b, access, lanes, b.work(state.WORK_ROWS))
    write_to_lds(b, access, b.slot(OFFSET))
    b.next()


def global_to_lds(b: HandlerBuilder, access: Access) -> None:
    """Slots as for a global load; slot 0 is unused."""
    preload(b, 5)
    exec = b.exec_bits()
    check_allocated(b, global_addresses(b), exec, access.bytes, remembered=4)
    transfer(b, access, b.work(state.WORK_ROWS), exec, store=False)
    count_bytes(b, state.READ_GLOBAL, exec, access.bytes)
    write_to_lds(b, access, b.slot(3))
    b.next()


def scratch_to_lds(b: HandlerBuilder, access: Access) -> None:
    """Slots as for a scratch load; slot 0 is unused."""
    addresses = checked_scratch_addresses(b, access)
    dword_by_dword(b, access, b.work(state.WORK_ROWS), b.exec_bits(), False, addresses)
    write_to_lds(b, access, b.slot(3))
    b.next()
