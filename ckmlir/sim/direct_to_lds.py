"""Between memory and LDS without a register: buffer_load … lds, global_load_lds_*, scratch_load_lds_*, and the store
buffer_store_lds_dword of gfx90a.

AMD CDNA3 ISA, section 9.1.9: LDS address = M0[15:0] + instruction offset + lane * 4, for active lanes. The wide forms
of gfx950 write 12 or 16 bytes a lane, at lane * 12 or lane * 16; its LDS is larger than 64 KiB, so more bits of M0
count. No document gives the store's LDS address; it is taken to be that of the loads. The store has no address
registers, so lanes only differ through add_tid_enable of the resource.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.buffer_access import OFFSET, BufferLanes, load_into, store_from
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


def transfer_lds(b: HandlerBuilder, access: Access, offset: str, store: bool) -> None:
    """Move the work rows to LDS or from it, each lane to or from its place."""
    rows = b.work(state.WORK_ROWS)
    width = 4 * access.dwords
    start = b.assign(f"and i32 {b.load_scalar(state.M0, U32)}, {0x3FFFF}")
    places = b.lane() * width + b.splat(U32, start)
    exec = b.exec_bits()
    lds_addresses(b, places, low_word(b, offset), exec, width)
    transfer(b, Access(width), rows, exec, store)
    count_bytes(b, state.WRITTEN_LDS if store else state.READ_LDS, exec, width)


def buffer_to_lds(b: HandlerBuilder, access: Access) -> None:
    """Slots as for a buffer load; slot 0 is unused. Lanes out of the resource's range write 0."""
    lanes = BufferLanes(b)
    load_into(b, access, lanes, b.work(state.WORK_ROWS))
    transfer_lds(b, access, b.slot(OFFSET), store=True)
    b.next()


def lds_to_buffer(b: HandlerBuilder, access: Access) -> None:
    """Slots as for a buffer store; slots 0 and 1 are unused. Lanes out of the resource's range store nothing."""
    lanes = BufferLanes(b)
    transfer_lds(b, access, b.slot(OFFSET), store=False)
    store_from(b, access, lanes, b.work(state.WORK_ROWS))
    b.next()


def global_to_lds(b: HandlerBuilder, access: Access) -> None:
    """Slots as for a global load; slot 0 is unused."""
    preload(b, 5)
    exec = b.exec_bits()
    check_allocated(b, global_addresses(b), exec, access.bytes, remembered=4)
    transfer(b, access, b.work(state.WORK_ROWS), exec, store=False)
    count_bytes(b, state.READ_GLOBAL, exec, access.bytes)
    transfer_lds(b, access, b.slot(3), store=True)
    b.next()


def scratch_to_lds(b: HandlerBuilder, access: Access) -> None:
    """Slots as for a scratch load; slot 0 is unused."""
    addresses = checked_scratch_addresses(b, access)
    dword_by_dword(b, access, b.work(state.WORK_ROWS), b.exec_bits(), False, addresses)
    transfer_lds(b, access, b.slot(3), store=True)
    b.next()
