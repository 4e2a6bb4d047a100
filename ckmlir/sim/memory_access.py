"""Vector memory instructions: addresses, bounds, and the transfer between memory and registers.

global, flat, scratch (AMD CDNA3 ISA, chapter 10), buffers (chapter 9) and LDS (chapter 11). Every access is checked:
global ones against the table of allocations (each instruction remembers the allocation it hit last, so the common check
is one vector comparison), LDS against the workgroup's size, scratch against the lane's private size. Buffer accesses
are first limited by the buffer resource, as the hardware does.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.builder import Value
from ckmlir.sim.checks.layout import Use
from ckmlir.sim.checks.observe import observe, same_lanes
from ckmlir.sim.checks.shadow_memory import shadow_transfer
from ckmlir.sim.element import U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.state import ErrorKind
from ckmlir.sim.transfers import move, note_addresses, work_addresses

# -- addresses and checks --------------------------------------------------------------------------------------------


def branch_if_any(b: HandlerBuilder, bits: str, stem: str) -> tuple[str, str]:
    """Branch on an i64 lane mask being non-zero; starts the block of the true case. Returns (true label, join
    label)."""
    some, join = b.new_label(stem), b.new_label("after_" + stem)
    b.emit(f"br i1 {b.assign(f'icmp ne i64 {bits}, 0')}, label %{some}, label %{join}")
    b.label(some)
    return some, join


def fail_at_lane(b: HandlerBuilder, kind: int, lane: str, bytes: int) -> None:
    slot = b.assign(f"getelementptr i64, ptr {work_addresses(b)}, i64 {lane}")
    b.fail(kind, b.assign(f"load i64, ptr {slot}, align 8"), lane, str(bytes))


def check_allocated(b: HandlerBuilder, addresses: Value, mask: str, bytes: int, remembered: int) -> None:
    """Stop unless each lane of the mask (an i64) accesses `bytes` within one allocation. Slot `remembered` of the
    record points to the table entry that was hit last."""
    note_addresses(b, addresses)
    if b.shadow:
        return
    entry = b.assign(f"inttoptr i64 {b.slot(remembered)} to ptr")
    first = b.assign(f"load i64, ptr {entry}, align 8")
    size = b.assign(f"load i64, ptr {b.pointer(entry, 8)}, align 8")
    limit = b.scalars().intrinsic("llvm.usub.sat.i64", "i64", ("i64", size), ("i64", str(bytes - 1)))
    inside = (addresses - b.splat(U64, first)) < b.splat(U64, limit)
    outside = b.assign(f"and i64 {mask}, {b.bits_of_mask(~inside)}")
    _, join = branch_if_any(b, outside, "search")
    slot = b.pointer("%record", state.RECORD_OPERANDS + 8 * remembered)
    lane = b.assign(
        f"call i64 @find_outside(i64 {mask}, ptr {work_addresses(b)}, i64 {bytes}, ptr {b.context()}, ptr {slot})"
    )
    bad = b.new_label("outside")
    b.emit(f"br i1 {b.assign(f'icmp sge i64 {lane}, 0')}, label %{bad}, label %{join}")
    b.label(bad)
    fail_at_lane(b, ErrorKind.GLOBAL_BOUNDS, lane, bytes)
    b.label(join)


def check_below(b: HandlerBuilder, offsets: Value, size: str, mask: str, bytes: int, kind: int) -> None:
    """Stop unless offset + bytes <= size (an i64) in each lane of the mask. Reports the noted address of the first
    lane."""
    if b.shadow:
        return
    limit = b.scalars().intrinsic("llvm.usub.sat.i64", "i64", ("i64", size), ("i64", str(bytes - 1)))
    inside = offsets < b.splat(U64, limit)
    outside = b.assign(f"and i64 {mask}, {b.bits_of_mask(~inside)}")
    _, join = branch_if_any(b, outside, "outside")
    lane = b.scalars().intrinsic("llvm.cttz.i64", "i64", ("i64", outside), ("i1", "true"))
    fail_at_lane(b, kind, lane, bytes)
    b.label(join)


def count_bytes(b: HandlerBuilder, counter: int, mask: str, bytes: int) -> None:
    lanes = b.scalars().intrinsic("llvm.ctpop.i64", "i64", ("i64", mask))
    b.add_to_context_field(counter, b.assign(f"mul i64 {lanes}, {bytes}"))


# -- transfers -------------------------------------------------------------------------------------------------------


def transfer(b: HandlerBuilder, access: Access, rows: str, mask: str, store: bool) -> None:
    """Move data between the noted addresses and the rows at a pointer, for the lanes of a mask (an i64)."""
    if b.shadow:
        shadow_transfer(b, access, rows, mask, store)
        return
    same = same_lanes(b, access, rows, mask) if store else ""
    observe(b, mask, access.bytes, Use.WRITE if store else Use.READ, same)
    move(b, access, rows, mask, store)


def low_word(b: HandlerBuilder, scalar: str) -> Value:
    """The low 32 bits of an i64 in every lane."""
    return b.splat(U32, b.assign(f"trunc i64 {scalar} to i32"))


def register_rows(b: HandlerBuilder, slot: int) -> str:
    return b.pointer("%wave", b.slot(slot))


def preload(b: HandlerBuilder, slots: int) -> None:
    """Load operand slots and EXEC in the entry block, which dominates whatever follows."""
    for index in range(slots):
        b.slot(index)
    b.exec_bits()


# -- LDS -------------------------------------------------------------------------------------------------------------


def lds_addresses(b: HandlerBuilder, address: Value, offset: Value, mask: str, bytes: int) -> Value:
    """Host addresses of LDS byte addresses plus a constant offset (u32 lanes, modulo 2**32), checked and noted."""
    offsets = (address + offset).to(U64)
    base = b.splat(U64, b.context_field(state.LDS_BASE))
    addresses = offsets + base
    note_addresses(b, addresses)
    check_below(b, offsets, b.context_field(state.LDS_SIZE), mask, bytes, ErrorKind.LDS_BOUNDS)
    return addresses


def lds_access(b: HandlerBuilder, access: Access, store: bool, pairs: int, spacing: int) -> None:
    """ds_read / ds_write. Slots: register(s) of the data, then the address, then one offset for each access.

    With `pairs` 2 (read2, write2) the offsets count in units of `spacing` bytes.
    """
    data_slots = pairs if store else 1
    preload(b, data_slots + 1 + pairs)
    exec = b.exec_bits()
    address = b.load_register(b.slot(data_slots), U32)
    for k in range(pairs):
        scaled = b.assign(f"mul i64 {b.slot(data_slots + 1 + k)}, {spacing}")
        lds_addresses(b, address, low_word(b, scaled), exec, access.bytes)
        rows = register_rows(b, k if store else 0)
        if not store and k:
            rows = b.pointer(rows, access.dwords * state.VGPR_BYTES)
        transfer(b, access, rows, exec, store)
    count_bytes(b, state.WRITTEN_LDS if store else state.READ_LDS, exec, access.bytes * pairs)
    b.next()


# -- global and flat -------------------------------------------------------------------------------------------------


def global_addresses(b: HandlerBuilder) -> Value:
    """Slots 1, 2 and 3: vector address, scalar address, offset. Without a scalar address the vector has 64 bits."""
    vector, scalar = b.key.operands[1:3]
    offset = b.splat(U64, b.slot(3))
    if scalar == "s":
        base = b.splat(U64, b.load_scalar(b.slot(2), U64)) + offset
        return base + b.load_register(b.slot(1), U32).to(U64) if vector == "v" else base
    return b.load_register(b.slot(1), U64) + offset


def global_access(b: HandlerBuilder, access: Access, store: bool) -> None:
    """Slots: data, vector address, scalar address, offset, remembered allocation."""
    preload(b, 5)
    exec = b.exec_bits()
    check_allocated(b, global_addresses(b), exec, access.bytes, remembered=4)
    transfer(b, access, register_rows(b, 0), exec, store)
    count_bytes(b, state.WRITTEN_GLOBAL if store else state.READ_GLOBAL, exec, access.bytes)
    b.next()


def scratch_addresses(b: HandlerBuilder, offsets: Value) -> Value:
    """Host addresses of private byte offsets (u64 lanes): dword k of lane l is at 256 * k + 4 * l, the order in which
    buffer instructions with the private segment's swizzled resource see it too."""
    base = b.splat(U64, b.load_scalar(state.SCRATCH, U64))
    return base + ((offsets >> 2) << 8) + (offsets & 3) + (b.lane().to(U64) << 2)


def dword_by_dword(
    b: HandlerBuilder, access: Access, rows: str, mask: str, store: bool, addresses_of: list[Value]
) -> None:
    """Transfer dwords whose addresses are given one by one."""
    if access.is_part:
        note_addresses(b, addresses_of[0])
        transfer(b, access, rows, mask, store)
        return
    for k, addresses in enumerate(addresses_of):
        note_addresses(b, addresses)
        transfer(b, Access(4), b.pointer(rows, k * state.VGPR_BYTES), mask, store)


def checked_scratch_addresses(b: HandlerBuilder, access: Access) -> list[Value]:
    """Host addresses of the dwords of a scratch access. Slots as for global; vector and scalar offsets are 32 bits and
    either may be absent."""
    preload(b, 5)
    exec = b.exec_bits()
    vector, scalar = b.key.operands[1:3]
    offsets = b.splat(U64, b.slot(3))
    if scalar == "s":
        offsets = offsets + b.splat(U32, b.load_scalar(b.slot(2), U32)).to(U64)
    if vector == "v":
        offsets = offsets + b.load_register(b.slot(1), U32).to(U64)
    offsets = offsets & 0xFFFF_FFFF
    note_addresses(b, offsets)
    size = b.load_scalar(state.SCRATCH_BYTES, U64)
    check_below(b, offsets, size, exec, access.bytes, ErrorKind.SCRATCH_BOUNDS)
    return [scratch_addresses(b, offsets + 4 * k) for k in range(access.dwords)]


def scratch_access(b: HandlerBuilder, access: Access, store: bool) -> None:
    """scratch_load / scratch_store."""
    addresses = checked_scratch_addresses(b, access)
    dword_by_dword(b, access, register_rows(b, 0), b.exec_bits(), store, addresses)
    b.next()


def flat_host_addresses(b: HandlerBuilder, addresses: Value) -> Value:
    """Flat addresses with those in the shared and private apertures replaced by where LDS and scratch are."""
    upper = addresses & 0xFFFF_FFFF_0000_0000
    low = addresses & 0xFFFF_FFFF
    shared = low + b.splat(U64, b.context_field(state.LDS_BASE))
    private = scratch_addresses(b, low)
    result = b.select(upper.eq(state.PRIVATE_APERTURE), private, addresses)
    return b.select(upper.eq(state.SHARED_APERTURE), shared, result)


def flat_access(b: HandlerBuilder, access: Access, store: bool) -> None:
    """flat_load / flat_store: dword by dword where a lane's address is in the private aperture. LDS and scratch are in
    the table of allocations, so one check serves all."""
    preload(b, 5)
    exec = b.exec_bits()
    flat = global_addresses(b)
    private = (flat & 0xFFFF_FFFF_0000_0000).eq(state.PRIVATE_APERTURE)
    any_private = b.assign(f"and i64 {exec}, {b.bits_of_mask(private)}")
    rows = register_rows(b, 0)
    host = flat_host_addresses(b, flat)
    dwords = [flat_host_addresses(b, flat + 4 * k) for k in range(access.dwords)]
    _, join = branch_if_any(b, any_private, "private")
    done = b.new_label("flat_done")
    dword = Access(min(access.bytes, 4), access.signed, access.place)
    for k, addresses in enumerate(dwords):
        check_allocated(b, addresses, exec, dword.bytes, remembered=4)
        transfer(b, dword, b.pointer(rows, k * state.VGPR_BYTES), exec, store)
    b.emit(f"br label %{done}")
    b.label(join)
    check_allocated(b, host, exec, access.bytes, remembered=4)
    transfer(b, access, rows, exec, store)
    b.emit(f"br label %{done}")
    b.label(done)
    count_bytes(b, state.WRITTEN_GLOBAL if store else state.READ_GLOBAL, exec, access.bytes)
    b.next()
