"""Memory instructions on shadows: the same transfers, between the shadow of memory and the shadow of registers.

The shadow of an allocation has its size; an allocation without one is defined throughout. LDS and scratch keep
undefined values; storing one anywhere else is a finding, after which the memory counts as defined: it is reported once.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.builder import Value
from ckmlir.sim.checks import layout
from ckmlir.sim.checks.layout import Kind
from ckmlir.sim.checks.observe import note_if_any
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.ir_text import allocation_of, each_lane, field
from ckmlir.sim.transfers import clear_lanes, dword_of, move

_SHADOWED = "  %shadowed = phi i64 [ 0, %entry ], [ %shadowed_next, %next ]\n"

# Replaces the noted addresses of lanes whose allocation has a shadow by addresses in it and returns those lanes; leaves
# the properties of the first lane's allocation in the context.
SHADOW_PLACES = f"""
define internal i64 @shadow_places(i64 %mask, ptr %addresses, ptr %context) #1 {{
entry:
{field("context", state.ALLOCATIONS, "table", "ptr")}
{field("context", state.ALLOCATION_ATTRIBUTES, "attributes", "ptr")}
  %first_lane = call i64 @llvm.cttz.i64(i64 %mask, i1 false)
  %lane0 = and i64 %first_lane, 63
  %slot0 = getelementptr i64, ptr %addresses, i64 %lane0
  %address0 = load i64, ptr %slot0, align 8
{allocation_of("near", "address0")}{field("near_row", layout.PROPERTIES, "properties")}
{field("near_row", layout.SHADOW_DELTA, "delta0")}
  %kept_at = getelementptr i8, ptr %context, i64 {state.SHADOW_PROPERTIES}
  store i64 %properties, ptr %kept_at, align 8
  %all = load <64 x i64>, ptr %addresses, align 64
  %start_first = insertelement <64 x i64> poison, i64 %near_first, i64 0
  %start = shufflevector <64 x i64> %start_first, <64 x i64> poison, <64 x i32> zeroinitializer
  %size_first = insertelement <64 x i64> poison, i64 %near_size, i64 0
  %size = shufflevector <64 x i64> %size_first, <64 x i64> poison, <64 x i32> zeroinitializer
  %offsets = sub <64 x i64> %all, %start
  %inside = icmp ult <64 x i64> %offsets, %size
  %inside_bits = bitcast <64 x i1> %inside to i64
  %outside_bits = xor i64 %inside_bits, -1
  %astray = and i64 %mask, %outside_bits
  %together = icmp eq i64 %astray, 0
  br i1 %together, label %one, label %head
one:
  %defined = icmp eq i64 %delta0, 0
  br i1 %defined, label %without, label %move
without:
  ret i64 0
move:
  %delta_first = insertelement <64 x i64> poison, i64 %delta0, i64 0
  %delta_all = shufflevector <64 x i64> %delta_first, <64 x i64> poison, <64 x i32> zeroinitializer
  %moved = add <64 x i64> %all, %delta_all
  store <64 x i64> %moved, ptr %addresses, align 64
  ret i64 %mask
{each_lane(phis=_SHADOWED)}{allocation_of("found", "address")}{field("found_row", layout.SHADOW_DELTA, "delta")}
  %offset = sub i64 %address, %found_first
  %within = icmp ult i64 %offset, %found_size
  %has_shadow = icmp ne i64 %delta, 0
  %usable = and i1 %within, %has_shadow
  %place = add i64 %address, %delta
  %stored = select i1 %usable, i64 %place, i64 %address
  store i64 %stored, ptr %slot, align 8
  %bit = shl i64 1, %lane
  %with_bit = or i64 %shadowed, %bit
  %shadowed_next = select i1 %usable, i64 %with_bit, i64 %shadowed
  br label %next
next:
  br label %head
done:
  ret i64 %shadowed
}}
"""


def shadow_places(b: HandlerBuilder, mask: str) -> str:
    """Move the noted addresses to shadows; returns the lanes (an i64) that have one."""
    return b.assign(f"call i64 @shadow_places(i64 {mask}, ptr {b.work(state.WORK_ADDRESSES)}, ptr {b.context()})")


def undefined_lanes(b: HandlerBuilder, access: Access, rows: str, mask: str) -> str:
    """The lanes of a mask whose data, in rows of shadows, has an undefined bit in what an access stores."""
    vectors = b.vectors()
    total = vectors.u32(0)
    for k in range(access.dwords):
        place = b.pointer(rows, k * state.VGPR_BYTES)
        total = total | Value(vectors, U32, b.assign(f"load <64 x i32>, ptr {place}, align 64"))
    if access.is_part:
        first = 16 if access.place == "high" else 0
        total = total & (((1 << 8 * access.bytes) - 1) << first)
    return b.assign(f"and i64 {mask}, {vectors.bits_of_mask(total.ne(0))}")


def shadow_transfer(b: HandlerBuilder, access: Access, rows: str, mask: str, store: bool) -> None:
    """A transfer between the shadow of the noted addresses and rows of shadows."""
    shadowed = shadow_places(b, mask)
    if store:
        _store(b, access, rows, mask, shadowed)
        return
    without = b.assign(f"and i64 {mask}, {b.assign(f'xor i64 {shadowed}, -1')}")
    clear, done = b.new_label("clear"), b.new_label("cleared")
    b.emit(f"br i1 {b.assign(f'icmp ne i64 {without}, 0')}, label %{clear}, label %{done}")
    b.label(clear)
    for k in range(access.dwords):
        clear_lanes(b, dword_of(access), b.pointer(rows, k * state.VGPR_BYTES), without)
    b.emit(f"br label %{done}")
    b.label(done)
    move(b, access, rows, shadowed, store=False)


def _store(b: HandlerBuilder, access: Access, rows: str, mask: str, shadowed: str) -> None:
    keeps, gives, done = b.new_label("keeps"), b.new_label("gives"), b.new_label("stored")
    bit = b.assign(f"and i64 {b.context_field(state.SHADOW_PROPERTIES)}, {layout.KEEPS_UNDEFINED}")
    b.emit(f"br i1 {b.assign(f'icmp ne i64 {bit}, 0')}, label %{keeps}, label %{gives}")
    b.label(keeps)
    move(b, access, rows, shadowed, store=True)
    b.emit(f"br label %{done}")
    b.label(gives)
    note_if_any(b, Kind.UNDEFINED_STORED, undefined_lanes(b, access, rows, mask))
    move(b, access, b.work(state.WORK_ZEROS), shadowed, store=True)
    b.emit(f"br label %{done}")
    b.label(done)


def shadow_atomic(
    b: HandlerBuilder, bytes: int, replaces: bool, mask: str, data: list[str], result: str | None
) -> None:
    """An atomic operation: the result is as undefined as the memory was; undefined data makes memory undefined."""
    access = Access(bytes)
    shadowed = shadow_places(b, mask)
    if result is not None:
        without = b.assign(f"and i64 {mask}, {b.assign(f'xor i64 {shadowed}, -1')}")
        for k in range(access.dwords):
            clear_lanes(b, Access(4), b.pointer(result, k * state.VGPR_BYTES), without)
        move(b, access, result, shadowed, store=False)
    undefined = undefined_lanes(b, access, data[0], mask)
    written = mask if replaces else undefined
    _store(b, access, data[0], undefined, b.assign(f"and i64 {written}, {shadowed}"))


def shadow_scalar_store(b: HandlerBuilder, address: Value, registers: str, dwords: int) -> None:
    """What a scalar store of registers, given by a pointer to their shadows, does to the shadow of memory."""
    words = [b.assign(f"load i32, ptr {b.pointer(registers, 4 * k)}, align 4") for k in range(dwords)]
    found, kept = _scalar_place(b, address, words)
    for k, word in enumerate(words):
        stored = b.assign(f"select i1 {kept}, i32 {word}, i32 0")
        b.emit(f"store i32 {stored}, ptr {b.pointer(found, 4 * k)}, align 4")


def shadow_scalar_atomic(
    b: HandlerBuilder, address: Value, bytes: int, replaces: bool, data: list[str], result: str | None
) -> None:
    """A scalar atomic operation, as `shadow_atomic` does for a lane; `data` and `result` point to shadows of registers,
    which may be the same."""
    count = bytes // 4
    words = [b.assign(f"load i32, ptr {b.pointer(one, 4 * k)}, align 4") for one in data for k in range(count)]
    found, kept = _scalar_place(b, address, words)
    old = [b.assign(f"load i32, ptr {b.pointer(found, 4 * k)}, align 4") for k in range(count)]
    for k, before in enumerate(old):
        new = words[k] if replaces else b.assign(f"or i32 {before}, {words[k]}")
        given = "0" if replaces else before
        stored = b.assign(f"select i1 {kept}, i32 {new}, i32 {given}")
        b.emit(f"store i32 {stored}, ptr {b.pointer(found, 4 * k)}, align 4")
        if result is not None:
            b.emit(f"store i32 {before}, ptr {b.pointer(result, 4 * k)}, align 4")


def _scalar_place(b: HandlerBuilder, address: Value, words: list[str]) -> tuple[str, str]:
    """Where the shadow of an address is, else room that nobody reads with zeros in it; and whether that memory keeps
    undefined values (i1). If it does not, undefined bits in the words to be stored are noted."""
    place = b.work(state.WORK_ADDRESSES)
    b.emit(f"store i64 {address.handle}, ptr {place}, align 8")
    has = b.assign(f"icmp ne i64 {shadow_places(b, '1')}, 0")
    moved = b.assign(f"inttoptr i64 {b.assign(f'load i64, ptr {place}, align 8')} to ptr")
    room = b.work(state.WORK_ROWS)
    b.emit(f"store <16 x i32> zeroinitializer, ptr {room}, align 64")
    bit = b.assign(f"and i64 {b.context_field(state.SHADOW_PROPERTIES)}, {layout.KEEPS_UNDEFINED}")
    kept = b.assign(f"icmp ne i64 {bit}, 0")
    total = "0"
    for word in words:
        total = b.assign(f"or i32 {total}, {word}")
    undefined = b.assign(f"and i1 {b.assign(f'icmp ne i32 {total}, 0')}, {b.assign(f'xor i1 {kept}, true')}")
    note_if_any(b, Kind.UNDEFINED_STORED, b.assign(f"zext i1 {undefined} to i64"))
    return b.assign(f"select i1 {has}, ptr {moved}, ptr {room}"), kept
