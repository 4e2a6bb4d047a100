"""Scalar memory instructions (SMEM): s_load, s_buffer_load. AMD CDNA3 ISA, chapter 8."""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.element import U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.state import ErrorKind


def _offset(b: HandlerBuilder) -> Value:
    """Slot 2 (a register, a constant or nothing) plus the encoded offset in slot 3, as u64."""
    total = Value(b, U64, b.slot(3))
    kind = b.key.operands[2]
    if kind == "s":
        total = total + Value(b, U32, b.load_scalar(b.slot(2), U32)).to(U64)
    elif kind == "i":
        total = total + Value(b, U64, b.slot(2))
    return total


def _check(b: HandlerBuilder, address: Value, bytes: int) -> None:
    """Stop unless the range lies in one allocation; slot 4 remembers the last one."""
    place = b.work(state.WORK_ADDRESSES)
    b.emit(f"store i64 {address.handle}, ptr {place}, align 8")
    entry = b.assign(f"inttoptr i64 {b.slot(4)} to ptr")
    first = Value(b, U64, b.assign(f"load i64, ptr {entry}, align 8"))
    size = b.assign(f"load i64, ptr {b.pointer(entry, 8)}, align 8")
    limit = Value(b, U64, b.intrinsic("llvm.usub.sat.i64", "i64", ("i64", size), ("i64", str(bytes - 1))))
    inside = (address - first) < limit
    search, bad, good = b.new_label("search"), b.new_label("outside"), b.new_label("inside")
    b.emit(f"br i1 {inside.handle}, label %{good}, label %{search}")
    b.label(search)
    slot = b.pointer("%record", state.RECORD_OPERANDS + 8 * 4)
    lane = b.assign(f"call i64 @find_outside(i64 1, ptr {place}, i64 {bytes}, ptr {b.context()}, ptr {slot})")
    b.emit(f"br i1 {b.assign(f'icmp sge i64 {lane}, 0')}, label %{bad}, label %{good}")
    b.label(bad)
    b.fail(ErrorKind.GLOBAL_BOUNDS, address.handle, "-1", str(bytes))
    b.label(good)


def load(b: HandlerBuilder, dwords: int) -> None:
    """s_load_dword*. Slots: destination, base pair, offset register, offset, remembered allocation. The two low address
    bits do not count."""
    for index in range(5):
        b.slot(index)
    base = Value(b, U64, b.load_scalar(b.slot(1), U64))
    address = (base + _offset(b)) & ~3
    _check(b, address, 4 * dwords)
    pointer = b.assign(f"inttoptr i64 {address.handle} to ptr")
    words = b.assign(f"load <{dwords} x i32>, ptr {pointer}, align 4")
    b.emit(f"store <{dwords} x i32> {words}, ptr {b.pointer('%wave', b.slot(0))}, align 4")
    b.add_to_context_field(state.READ_GLOBAL, str(4 * dwords))
    b.next()


def buffer_load(b: HandlerBuilder, dwords: int) -> None:
    """s_buffer_load_dword*: slot 1 is the resource; each dword beyond num_records (bytes, or records of stride bytes)
    gives 0."""
    for index in range(5):
        b.slot(index)
    resource = b.slot(1)
    words = [Value(b, U32, b.load_scalar(b.assign(f"add i64 {resource}, {4 * k}"), U32)) for k in range(3)]
    stride = (words[1] >> 16) & 0x3FFF
    size = b.select(stride.eq(0), words[2].to(U64), words[2].to(U64) * stride.to(U64))
    base = b.join(words[0], words[1] & 0xFFFF)
    start = _offset(b) & ~3
    for k in range(dwords):
        offset = start + 4 * k
        read, skip, done = b.new_label("read"), b.new_label("skip"), b.new_label("done")
        b.emit(f"br i1 {(offset < size).handle}, label %{read}, label %{skip}")
        b.label(read)
        _check(b, base + offset, 4)
        pointer = b.assign(f"inttoptr i64 {(base + offset).handle} to ptr")
        word = b.assign(f"load i32, ptr {pointer}, align 4")
        b.store_scalar(b.assign(f"add i64 {b.slot(0)}, {4 * k}"), word, U32)
        b.emit(f"br label %{done}")
        b.label(skip)
        b.store_scalar(b.assign(f"add i64 {b.slot(0)}, {4 * k}"), "0", U32)
        b.emit(f"br label %{done}")
        b.label(done)
    b.next()
