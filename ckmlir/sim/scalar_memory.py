"""Scalar memory instructions (SMEM): loads, stores and atomics of global memory, scratch and buffers. AMD CDNA3 ISA,
chapter 8.

Slots of all: data, base (an address, or a buffer resource), offset register or nothing, constant offset, remembered
allocation. The two low address bits do not count. An offset register of a scratch access counts 64 bytes. Buffers are
checked dword by dword against num_records, bytes or records of stride bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.sim import state
from ckmlir.sim.atomics import COMBINES, Atomic
from ckmlir.sim.builder import Value
from ckmlir.sim.checks.layout import Use
from ckmlir.sim.checks.observe import observe_misaligned, observe_scalar
from ckmlir.sim.checks.shadow_memory import shadow_scalar_atomic, shadow_scalar_store
from ckmlir.sim.element import U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.state import ErrorKind

_SLOTS = 5
_SCRATCH_UNIT = 6  # an offset register of scratch counts 1 << 6 bytes


def _offset(b: HandlerBuilder, register_shift: int = 0) -> Value:
    """Slot 2 (a register, a constant or nothing) plus the encoded offset in slot 3, as u64."""
    total = Value(b, U64, b.slot(3))
    kind = b.key.operands[2]
    if kind == "s":
        total = total + (Value(b, U32, b.load_scalar(b.slot(2), U32)).to(U64) << register_shift)
    elif kind == "i":
        total = total + Value(b, U64, b.slot(2))
    return total


def _check(b: HandlerBuilder, address: Value, bytes: int, use: int) -> None:
    """Stop unless the range lies in one allocation; slot 4 remembers the last one. `use` is what checkers see."""
    if b.shadow:
        return
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
    observe_scalar(b, address, bytes, use)


def _preload(b: HandlerBuilder) -> None:
    for index in range(_SLOTS):
        b.slot(index)


def _pointer(b: HandlerBuilder, address: Value) -> str:
    return b.host_pointer(address.handle)


def _move(b: HandlerBuilder, address: Value, registers: str, dwords: int, store: bool) -> None:
    """Between memory and registers at a pointer."""
    if store and b.shadow:
        shadow_scalar_store(b, address, registers, dwords)
        return
    memory = _pointer(b, address)
    source, target = (registers, memory) if store else (memory, registers)
    words = b.assign(f"load <{dwords} x i32>, ptr {source}, align 4")
    b.emit(f"store <{dwords} x i32> {words}, ptr {target}, align 4")


def _global_address(b: HandlerBuilder, scratch: bool = False) -> Value:
    base = Value(b, U64, b.load_scalar(b.slot(1), U64))
    address = base + _offset(b, _SCRATCH_UNIT if scratch else 0)
    observe_misaligned(b, address)
    return address & ~3


def access(b: HandlerBuilder, dwords: int, store: bool, scratch: bool) -> None:
    """s_load, s_store, s_scratch_load, s_scratch_store."""
    _preload(b)
    address = _global_address(b, scratch)
    _check(b, address, 4 * dwords, Use.WRITE if store else Use.READ)
    _move(b, address, b.pointer("%wave", b.slot(0)), dwords, store)
    b.add_to_context_field(state.WRITTEN_GLOBAL if store else state.READ_SCALAR, str(4 * dwords))
    b.next()


class _Buffer:
    """The resource of a scalar buffer instruction: where it starts, how many bytes it has."""

    def __init__(self, b: HandlerBuilder) -> None:
        resource = b.slot(1)
        words = [Value(b, U32, b.load_scalar(b.assign(f"add i64 {resource}, {4 * k}"), U32)) for k in range(3)]
        stride = (words[1] >> 16) & 0x3FFF
        self.size = b.select(stride.eq(0), words[2].to(U64), words[2].to(U64) * stride.to(U64))
        self.base = b.join(words[0], words[1] & 0xFFFF)


def _if_in_range(
    b: HandlerBuilder,
    buffer: _Buffer,
    offset: Value,
    bytes: int,
    use: int,
    act: Callable[[Value], None],
    skip: Callable[[], None],
) -> None:
    """Run `act(address)` where the bytes are within the buffer, else `skip()`."""
    limit = b.intrinsic("llvm.usub.sat.i64", "i64", ("i64", buffer.size.handle), ("i64", str(bytes - 1)))
    inside, outside, done = b.new_label("in_range"), b.new_label("out_of_range"), b.new_label("done")
    b.emit(f"br i1 {(offset < Value(b, U64, limit)).handle}, label %{inside}, label %{outside}")
    b.label(inside)
    _check(b, buffer.base + offset, bytes, use)
    act(buffer.base + offset)
    b.emit(f"br label %{done}")
    b.label(outside)
    skip()
    b.emit(f"br label %{done}")
    b.label(done)


def buffer_access(b: HandlerBuilder, dwords: int, store: bool) -> None:
    """s_buffer_load, s_buffer_store: dwords out of range give 0, or are not written."""
    _preload(b)
    buffer, start = _Buffer(b), _offset(b) & ~3
    for k in range(dwords):
        register = b.pointer("%wave", b.assign(f"add i64 {b.slot(0)}, {4 * k}"))

        def move(address: Value, register: str = register) -> None:
            _move(b, address, register, 1, store)

        def clear(register: str = register) -> None:
            if not store:
                b.emit(f"store i32 0, ptr {register}, align 4")

        _if_in_range(b, buffer, start + 4 * k, 4, Use.WRITE if store else Use.READ, move, clear)
    b.add_to_context_field(state.WRITTEN_GLOBAL if store else state.READ_SCALAR, str(4 * dwords))
    b.next()


def atomic(b: HandlerBuilder, atomic: Atomic, buffer: bool) -> None:
    """s_atomic, s_buffer_atomic: the old content replaces the data when modifier "returns" is set. The second data
    operand follows the first."""
    _preload(b)
    type, bytes = atomic.element, atomic.bytes

    def update(address: Value) -> None:
        if b.shadow:
            data = [b.pointer("%wave", b.assign(f"add i64 {b.slot(0)}, {bytes * k}")) for k in range(atomic.data_count)]
            result = data[0] if b.key.modifier("returns") else None
            shadow_scalar_atomic(b, address, bytes, atomic.combine == "swap", data, result)
            return
        memory, spelled = _pointer(b, address), b.element(type)
        old = Value(b, type, b.assign(f"load {spelled}, ptr {memory}, align 4"))
        places = [b.assign(f"add i64 {b.slot(0)}, {bytes * k}") for k in range(atomic.data_count)]
        operands = [Value(b, type, b.load_scalar(place, type)) for place in places]
        new = COMBINES[atomic.combine][1](b, old, operands[0], operands[-1])
        b.emit(f"store {spelled} {new.handle}, ptr {memory}, align 4")
        if b.key.modifier("returns"):
            b.store_scalar(b.slot(0), old.handle, type)

    def nothing() -> None:
        if b.key.modifier("returns"):
            b.store_scalar(b.slot(0), "0", type)

    if buffer:
        _if_in_range(b, _Buffer(b), _offset(b) & ~3, bytes, Use.ATOMIC, update, nothing)
    else:
        address = _global_address(b)
        _check(b, address, bytes, Use.ATOMIC)
        update(address)
    b.add_to_context_field(state.WRITTEN_GLOBAL, str(bytes))
    b.next()
