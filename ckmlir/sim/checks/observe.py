"""What checked handlers do at every access to memory: calls of the compiled checks, chosen by the key's "checks"."""

from __future__ import annotations

from functools import cache

from ckmlir.sim import state, step_recording
from ckmlir.sim.access import Access
from ckmlir.sim.builder import Value
from ckmlir.sim.checks import layout, race_lds, race_memory, recording, wait_handlers, wait_layout, wait_lds
from ckmlir.sim.checks.layout import Kind, Use
from ckmlir.sim.element import U32, U64
from ckmlir.sim.handler import HandlerBuilder


def checks_of(b: HandlerBuilder) -> int:
    """The checks compiled into this handler."""
    return b.key.modifier("checks") & layout.IN_HANDLERS


def note(b: HandlerBuilder, kind: int, lanes: str, address: str) -> None:
    """Note a finding of these lanes (an i64)."""
    b.emit(f"call void @note_finding(ptr %wave, ptr %record, i64 {kind}, i64 {lanes}, i64 {address}, i64 0, i64 0)")


def note_if_any(b: HandlerBuilder, kind: int, lanes: str, noted: bool = True) -> None:
    """Note a finding of the lanes, if there are any; at the noted address of the first, where addresses are `noted`."""
    found, join = b.new_label("found"), b.new_label("clean")
    b.emit(f"br i1 {b.assign(f'icmp ne i64 {lanes}, 0')}, label %{found}, label %{join}")
    b.label(found)
    first = b.scalars().intrinsic("llvm.cttz.i64", "i64", ("i64", lanes), ("i1", "false"))
    slot = b.assign(f"getelementptr i64, ptr {b.work(state.WORK_ADDRESSES)}, i64 {b.assign(f'and i64 {first}, 63')}")
    note(b, kind, lanes, b.assign(f"load i64, ptr {slot}, align 8") if noted else "0")
    b.emit(f"br label %{join}")
    b.label(join)


def _misaligned(b: HandlerBuilder, mask: str, bytes: int) -> str:
    """The lanes of a mask (an i64) whose noted address is not a multiple of `bytes`, a power of two."""
    vectors = b.vectors()
    loaded = b.assign(f"load <64 x i64>, ptr {b.work(state.WORK_ADDRESSES)}, align 64")
    odd = (Value(vectors, U64, loaded) & (bytes - 1)).ne(0)
    return b.assign(f"and i64 {mask}, {vectors.bits_of_mask(odd)}")


def _in_lds(b: HandlerBuilder, use: int) -> bool:
    """Whether an access may concern LDS. Loads that go to LDS without a register write LDS, stores from LDS read it."""
    name = b.key.mnemonic
    of_lds = Use.READ if "_store_" in name else Use.WRITE
    return name.startswith(("flat", "ds_")) or bool(b.key.modifier("lds") and use == of_lds)


def _in_memory(b: HandlerBuilder, use: int) -> bool:
    """Whether an access may concern memory."""
    return b.key.mnemonic.startswith("flat") or not _in_lds(b, use)


def _check_races(b: HandlerBuilder, mask: str, bytes: int, use: int, place: str, same: str = "") -> None:
    """Check the noted addresses for races. An atomic load or store is atomic in the lanes where it is aligned. `same`:
    lanes (an i64) of a write that write what is there."""
    parts = [(b.assign(f"and i64 {mask}, {b.assign(f'xor i64 {same}, -1')}"), use), (same, Use.SAME)] if same else []
    if _in_lds(b, use):
        for lanes, what in parts or [(mask, use)]:
            name = race_lds.lds_helper(what, bytes)
            b.emit(f"call void @{name}(i64 {lanes}, ptr {place}, ptr %wave, ptr %record)")
    if not _in_memory(b, use):
        return
    parts = parts or [(mask, use)]
    if use in (Use.READ, Use.WRITE) and b.key.modifier("atomic"):
        odd = _misaligned(b, mask, bytes)
        parts = [
            (b.assign(f"xor i64 {mask}, {odd}"), Use.ATOMIC_READ if use == Use.READ else Use.ATOMIC_WRITE),
            (odd, use),
        ]
    for lanes, what in parts:
        name = race_memory.memory_helper(what)
        b.emit(f"call void @{name}(i64 {lanes}, ptr {place}, ptr %wave, ptr %record, i64 {bytes})")


def same_lanes(b: HandlerBuilder, access: Access, rows: str, mask: str) -> str:
    """The lanes of a mask (an i64) whose part of the rows at a pointer is what memory has at their noted addresses;
    "" where no check asks."""
    if not checks_of(b) & layout.RACE:
        return ""
    there = b.work(state.WORK_MATRIX_A)
    b.emit(f"call void @load_masked_{access.name}(i64 {mask}, ptr {b.work(state.WORK_ADDRESSES)}, ptr {there})")
    ones = (1 << 8 * min(access.bytes, 4)) - 1
    compared = ones << 16 if access.place == "high" else ones
    same = mask
    for row in range(access.dwords):
        given, held = (
            b.assign(f"load <64 x i32>, ptr {b.pointer(start, row * state.VGPR_BYTES)}, align 64")
            for start in (rows, there)
        )
        different = b.assign(f"and <64 x i32> {b.assign(f'xor <64 x i32> {given}, {held}')}, splat (i32 {compared})")
        equal = b.assign(f"icmp eq <64 x i32> {different}, zeroinitializer")
        same = b.assign(f"and i64 {same}, {b.assign(f'bitcast <64 x i1> {equal} to i64')}")
    return same


def observe(b: HandlerBuilder, mask: str, bytes: int, use: int, same: str = "") -> None:
    """Check an access of `bytes` at the noted address of each lane of the mask (an i64), before it is made. `same`: as
    `same_lanes` gives it."""
    checks = checks_of(b)
    addresses = b.work(state.WORK_ADDRESSES) if checks else ""
    if checks & layout.MEMORY:
        if use != Use.READ:
            b.emit(f"call void @check_read_only(i64 {mask}, ptr {addresses}, ptr %wave, ptr %record)")
        if use == Use.ATOMIC:
            note_if_any(b, Kind.MISALIGNED, _misaligned(b, mask, bytes))
    if checks & layout.UNALIGNED and use != Use.ATOMIC and bytes >= 4:
        note_if_any(b, Kind.UNALIGNED, _misaligned(b, mask, 4))
    if checks & layout.RACE:
        _check_races(b, mask, bytes, use, addresses, same)
    if checks & layout.RECORDING:
        step_recording.record_access(b, mask, bytes, use)
    if checks & layout.WAIT and _in_lds(b, use):
        flags = _WAIT_FLAGS[use] | wait_layout.DIRECT * b.key.modifier("lds")
        b.emit(f"call void @wait_lds(i64 {mask}, ptr {addresses}, ptr %wave, ptr %record, i64 {bytes}, i64 {flags})")


_WAIT_FLAGS = {
    Use.READ: wait_layout.READS,
    Use.WRITE: wait_layout.WRITES,
    Use.ATOMIC: wait_layout.READS | wait_layout.WRITES,
}


def observe_scalar(b: HandlerBuilder, address: Value, bytes: int, use: int) -> None:
    """Check an access of a scalar memory instruction (scalar builder), in pieces as long as a lane's can be."""
    place = b.work(state.WORK_ADDRESSES) if checks_of(b) else ""
    if checks_of(b) & layout.MEMORY and use != Use.READ:
        b.emit(f"store i64 {address.handle}, ptr {place}, align 8")
        b.emit(f"call void @check_read_only(i64 1, ptr {place}, ptr %wave, ptr %record)")
    if checks_of(b) & layout.RECORDING:
        b.emit(f"store i64 {address.handle}, ptr {place}, align 8")
        step_recording.record_access(b, "1", bytes, use)
    if not checks_of(b) & layout.RACE:
        return
    for first in range(0, bytes, 16):
        b.emit(f"store i64 {(address + first).handle}, ptr {place}, align 8")
        _check_races(b, "1", min(bytes - first, 16), use, place)


def observe_clamped(b: HandlerBuilder, lanes: str) -> None:
    """Note the lanes that the range of a buffer refuses."""
    if checks_of(b) & layout.CLAMPED:
        note_if_any(b, Kind.CLAMPED, lanes)


def observe_misaligned(b: HandlerBuilder, address: Value) -> None:
    """A scalar load ignores the two low address bits (CDNA3 ISA, section 8.2); note it if they are not zero."""
    if checks_of(b) & layout.MEMORY:
        lane = b.assign(f"zext i1 {(address & 3).ne(0).handle} to i64")
        found, join = b.new_label("misaligned"), b.new_label("aligned")
        b.emit(f"br i1 {b.assign(f'icmp ne i64 {lane}, 0')}, label %{found}, label %{join}")
        b.label(found)
        note(b, Kind.MISALIGNED, "0", address.handle)
        b.emit(f"br label %{join}")
        b.label(join)


def observe_barrier(b: HandlerBuilder) -> None:
    """Note lanes that a wave started with and that EXEC leaves out when it comes to a barrier."""
    if not b.key.modifier("checks") & layout.BARRIER:
        return
    number = b.assign(f"zext i32 {b.load_scalar(state.WAVE_NUMBER, U32)} to i64")
    template = b.assign(f"inttoptr i64 {b.context_field(state.TEMPLATE)} to ptr")
    wave = b.pointer(template, b.assign(f"mul i64 {number}, {state.WAVE_BYTES}"))
    started = b.assign(f"load i64, ptr {b.pointer(wave, state.EXEC)}, align 4")
    missing = b.assign(f"and i64 {started}, {b.assign(f'xor i64 {b.exec_bits()}, -1')}")
    found, join = b.new_label("missing"), b.new_label("present")
    b.emit(f"br i1 {b.assign(f'icmp ne i64 {missing}, 0')}, label %{found}, label %{join}")
    b.label(found)
    note(b, Kind.LANES_AT_BARRIER, missing, "0")
    b.emit(f"br label %{join}")
    b.label(join)


@cache
def helper_texts() -> dict[str, str]:
    """All functions that checked handlers call, by name."""
    return {
        "note_finding": recording.NOTE_FINDING,
        "check_read_only": recording.CHECK_READ_ONLY,
        **race_lds.helpers(),
        **race_memory.helpers(),
        **step_recording.helpers(),
        **wait_handlers.helpers(),
        **wait_lds.helpers(),
    }
