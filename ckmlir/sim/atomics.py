"""Atomic operations on LDS, global memory and buffers: one lane after another, each with its own read, computation and
write.

AMD CDNA3 ISA, sections 12.13 (DS), 12.14 (MUBUF) and 12.15 (FLAT, GLOBAL). The operation is chosen by the name inside
the mnemonic.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from ckmlir.sim import state
from ckmlir.sim.buffer_access import BufferLanes
from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.checks.layout import Use
from ckmlir.sim.checks.observe import observe
from ckmlir.sim.checks.shadow_memory import shadow_atomic
from ckmlir.sim.element import F16, F32, F64, I32, I64, U16, U32, U64, ElementType
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.memory_access import (
    check_allocated,
    count_bytes,
    flat_host_addresses,
    global_addresses,
    lds_addresses,
    low_word,
    preload,
    register_rows,
)  # fmt: skip
from ckmlir.sim.semantics.floating import add, maximum, minimum
from ckmlir.sim.semantics.small_floats import bf16_to_f32, f32_to_bf16

Combine = Callable[[Builder, Value, Value, Value], Value]
"""From the old content, the data and the second data (or comparison value) to the new content, as scalars."""


def increment(b: Builder, old: Value, data: Value, _: Value) -> Value:
    return b.select(old >= data, b.constant(old.type, 0), old + 1)


def decrement(b: Builder, old: Value, data: Value, _: Value) -> Value:
    return b.select(old.eq(0) | (old > data), data, old - 1)


def exchange_marked(b: Builder, old: Value, data: Value, _: Value) -> Value:
    """ds_condxchg32: each half is replaced where the new half has its top bit set, which is not stored."""
    result = old
    for shift in (0, 32):
        half = 0xFFFFFFFF << shift
        marked = ((data >> (shift + 31)) & 1).ne(0)
        replaced = (result & ~half & 0xFFFF_FFFF_FFFF_FFFF) | (data & (0x7FFFFFFF << shift))
        result = b.select(marked, replaced, result)
    return result


def add_pairs(b: Builder, old: Value, data: Value, bfloat: bool) -> Value:
    result = b.u32(0)
    for shift in (0, 16):
        x, y = ((word >> shift).to(U16) for word in (old, data))
        if bfloat:
            total = f32_to_bf16(b, add(b, bf16_to_f32(b, x), bf16_to_f32(b, y)))
        else:
            total = add(b, x.bits(F16), y.bits(F16)).bits()
        result = result | (total.to(U32) << shift)
    return result


# name: (kind of the element, what it does); the kind is "u", "i" or "f" with the access's width
COMBINES: dict[str, tuple[str, Combine]] = {
    "swap": ("u", lambda b, old, data, _: data),
    "add": ("u", lambda b, old, data, _: old + data),
    "sub": ("u", lambda b, old, data, _: old - data),
    "rsub": ("u", lambda b, old, data, _: data - old),
    "inc": ("u", increment),
    "dec": ("u", decrement),
    "smin": ("i", lambda b, old, data, _: old.minimum(data)),
    "smax": ("i", lambda b, old, data, _: old.maximum(data)),
    "umin": ("u", lambda b, old, data, _: old.minimum(data)),
    "umax": ("u", lambda b, old, data, _: old.maximum(data)),
    "and": ("u", lambda b, old, data, _: old & data),
    "or": ("u", lambda b, old, data, _: old | data),
    "xor": ("u", lambda b, old, data, _: old ^ data),
    "wrap": ("u", lambda b, old, data, second: b.select(old >= data, old - data, old + second)),
    "exchange_marked": ("u", exchange_marked),
    "mskor": ("u", lambda b, old, data, second: (old & ~data) | second),
    "compare_swap": ("u", lambda b, old, data, compare: b.select(old.eq(compare), data, old)),
    "compare_swap_float": ("f", lambda b, old, data, compare: b.select(old.eq(compare), data, old)),
    "add_float": ("f", lambda b, old, data, _: add(b, old, data)),
    "min_float": ("f", lambda b, old, data, _: minimum(b, old, data)),
    "max_float": ("f", lambda b, old, data, _: maximum(b, old, data)),
    "pk_add_f16": ("u", lambda b, old, data, _: add_pairs(b, old, data, bfloat=False)),
    "pk_add_bf16": ("u", lambda b, old, data, _: add_pairs(b, old, data, bfloat=True)),
}

_DS = re.compile(r"ds_(\w+?)(?:_rtn)?_(b32|b64|u32|u64|i32|i64|f32|f64|f16|bf16)$")
_MEMORY = re.compile(r"(?:buffer|global|flat|s|s_buffer)_atomic_(\w+?)(_x2)?$")


class Atomic(Struct, frozen=True):
    """An atomic instruction: what it does, the bytes it touches, how many data operands of that width it has, whether
    the comparison value is the first of them (LDS) or the second (memory), and whether the LDS address is rounded down
    to a multiple of the bytes."""

    combine: str
    bytes: int
    data_count: int = 1
    compare_first: bool = False
    rounds_address: bool = False

    @property
    def element(self) -> ElementType:
        kind = COMBINES[self.combine][0]
        return {("u", 4): U32, ("u", 8): U64, ("i", 4): I32, ("i", 8): I64, ("f", 4): F32, ("f", 8): F64}[
            kind, self.bytes
        ]


def parse_atomic(mnemonic: str) -> Atomic | None:
    """The atomic that a mnemonic names, or None."""
    if match := _DS.match(mnemonic):
        name, type = match.groups()
        if name in ("pk_add",):
            return Atomic(f"pk_add_{type}", 4)
        bytes = int(type[1:]) // 8
        if name in ("min", "max"):
            combine = f"{name}_float" if type[0] == "f" else {"i": "s", "u": "u"}[type[0]] + name
        elif name == "cmpst":
            return Atomic("compare_swap_float" if type[0] == "f" else "compare_swap", bytes, 2, True)
        elif name in ("mskor", "wrap"):
            return Atomic(name, bytes, 2)
        elif name == "condxchg32":
            return Atomic("exchange_marked", bytes, rounds_address=True)
        else:
            combine = {"wrxchg": "swap", "add": "add_float" if type[0] == "f" else "add"}.get(name, name)
        return Atomic(combine, bytes) if combine in COMBINES else None
    if match := _MEMORY.match(mnemonic):
        name, wide = match.groups()
        bytes = 8 if wide or name.endswith("f64") else 4
        if name == "cmpswap":
            return Atomic("compare_swap", bytes, 2)
        if name in ("pk_add_f16", "pk_add_bf16"):
            return Atomic(name, 4)
        combine = re.sub(r"_f(32|64)$", "_float", name)
        return Atomic(combine, bytes) if combine in COMBINES else None
    return None


# -- the loop over lanes ---------------------------------------------------------------------------------------------


def _lane_data(b: HandlerBuilder, rows: str, lane: str, type: ElementType) -> Value:
    """A lane's element in one register or a pair, as a scalar."""
    s = b.scalars()
    words = []
    for k in range(type.bits // 32):
        place = b.assign(f"getelementptr i32, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, i64 {lane}")
        words.append(Value(s, U32, b.assign(f"load i32, ptr {place}, align 4")))
    return (words[0] if len(words) == 1 else s.join(*words)).bits(type)


def _set_lane(b: HandlerBuilder, rows: str, lane: str, value: Value) -> None:
    bits = value.bits()
    for k in range(value.type.bits // 32):
        word = bits if value.type.bits == 32 else (bits >> (32 * k)).to(U32)
        place = b.assign(f"getelementptr i32, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, i64 {lane}")
        b.emit(f"store i32 {word.handle}, ptr {place}, align 4")


def for_each_lane(b: HandlerBuilder, mask: str, act: Callable[[str], None]) -> None:
    """Emit a loop over the lanes of a mask (an i64); `act` emits what happens for the lane with a given number, and may
    not start blocks of its own."""
    entry, head, body, done = (b.new_label(stem) for stem in ("lanes", "head", "body", "done"))
    b.emit(f"br label %{entry}")
    b.label(entry)
    b.emit(f"br label %{head}")
    b.label(head)
    left, rest = "%" + b.new_label("left"), "%" + b.new_label("rest")
    b.emit(f"{left} = phi i64 [ {mask}, %{entry} ], [ {rest}, %{body} ]")
    b.emit(f"br i1 {b.assign(f'icmp eq i64 {left}, 0')}, label %{done}, label %{body}")
    b.label(body)
    lane = b.scalars().intrinsic("llvm.cttz.i64", "i64", ("i64", left), ("i1", "true"))
    b.emit(f"{rest} = and i64 {left}, {b.assign(f'add i64 {left}, -1')}")
    act(lane)
    b.emit(f"br label %{head}")
    b.label(done)


def _place(b: HandlerBuilder, addresses: str, lane: str) -> str:
    """The host address of a lane as a pointer."""
    slot = b.assign(f"getelementptr i64, ptr {addresses}, i64 {lane}")
    return b.assign(f"inttoptr i64 {b.assign(f'load i64, ptr {slot}, align 8')} to ptr")


def run_lanes(b: HandlerBuilder, atomic: Atomic, mask: str, data: list[str], result: str | None) -> None:
    """Loop over the lanes of a mask; `data` and `result` are pointers to register rows. Addresses have been noted."""
    if b.shadow:
        shadow_atomic(b, atomic.bytes, atomic.combine == "swap", mask, data, result)
        return
    observe(b, mask, atomic.bytes, Use.ATOMIC)
    s, type = b.scalars(), atomic.element
    spelled = s.element(type)
    addresses = b.work(state.WORK_ADDRESSES)

    def update(lane: str) -> None:
        place = _place(b, addresses, lane)
        old = Value(s, type, b.assign(f"load {spelled}, ptr {place}, align 4"))
        operands = [_lane_data(b, rows, lane, type) for rows in data]
        if atomic.compare_first:
            operands.reverse()
        second = operands[1] if len(operands) > 1 else operands[0]
        new = COMBINES[atomic.combine][1](s, old, operands[0], second)
        b.emit(f"store {spelled} {new.handle}, ptr {place}, align 4")
        if result is not None:
            _set_lane(b, result, lane, old)

    for_each_lane(b, mask, update)


def _data_rows(b: HandlerBuilder, atomic: Atomic, first_slot: int, separate: bool) -> list[str]:
    """Data operands: each in a slot of its own (LDS), or one after another in consecutive registers (memory)."""
    if separate:
        return [register_rows(b, first_slot + k) for k in range(atomic.data_count)]
    rows = register_rows(b, first_slot)
    step = atomic.bytes // 4 * state.VGPR_BYTES
    return [b.pointer(rows, k * step) for k in range(atomic.data_count)]


def lds_atomic(b: HandlerBuilder, atomic: Atomic) -> None:
    """Slots: result (operand "off" if none), address, data, second data or unused, offset."""
    preload(b, 5)
    exec = b.exec_bits()
    address, offset = b.load_register(b.slot(1), U32), low_word(b, b.slot(4))
    if atomic.rounds_address:
        address, offset = (address + offset) & ~(atomic.bytes - 1) & 0xFFFFFFFF, b.u32(0)
    lds_addresses(b, address, offset, exec, atomic.bytes)
    result = register_rows(b, 0) if b.key.operands[0] == "v" else None
    run_lanes(b, atomic, exec, _data_rows(b, atomic, 2, separate=True), result)
    count_bytes(b, state.WRITTEN_LDS, exec, atomic.bytes)
    b.next()


def lds_exchange_pair(b: HandlerBuilder, bytes: int, spacing: int) -> None:
    """ds_wrxchg2_rtn: two exchanges, whose offsets count `spacing` bytes. Slots: result, address, two data registers,
    two offsets. A lane reads both places before it writes them."""
    preload(b, 6)
    s, exec, type = b.scalars(), b.exec_bits(), U64 if bytes == 8 else U32
    address = b.load_register(b.slot(1), U32)
    data, rows = [register_rows(b, 2 + k) for k in range(2)], []
    results = [register_rows(b, 0), b.pointer(register_rows(b, 0), bytes // 4 * state.VGPR_BYTES)]
    for k in range(2):
        offset = low_word(b, b.assign(f"mul i64 {b.slot(4 + k)}, {spacing}"))
        addresses = lds_addresses(b, address, offset, exec, bytes)
        rows.append(b.work(state.WORK_ROWS + 512 * k))
        b.emit(f"store {b.typed(addresses)}, ptr {rows[k]}, align 64")
        if b.shadow:
            shadow_atomic(b, bytes, True, exec, [data[k]], results[k])
        observe(b, exec, bytes, Use.ATOMIC)
    if b.shadow:
        return

    def exchange(lane: str) -> None:
        places = [_place(b, row, lane) for row in rows]
        new = [_lane_data(b, row, lane, type) for row in data]
        old = [Value(s, type, b.assign(f"load {s.element(type)}, ptr {place}, align 4")) for place in places]
        for place, value in zip(places, new):
            b.emit(f"store {s.element(type)} {value.handle}, ptr {place}, align 4")
        for row, value in zip(results, old):
            _set_lane(b, row, lane, value)

    for_each_lane(b, exec, exchange)
    count_bytes(b, state.WRITTEN_LDS, exec, 2 * bytes)
    b.next()


def global_atomic(b: HandlerBuilder, atomic: Atomic) -> None:
    """Slots: data, vector address, scalar address, offset, remembered allocation, result (operand 5 is "off" if
    none)."""
    preload(b, 6)
    exec = b.exec_bits()
    addresses = global_addresses(b)
    if b.key.mnemonic.startswith("flat"):
        addresses = flat_host_addresses(b, addresses)
    check_allocated(b, addresses, exec, atomic.bytes, remembered=4)
    result = register_rows(b, 5) if b.key.operands[5] == "v" else None
    run_lanes(b, atomic, exec, _data_rows(b, atomic, 0, separate=False), result)
    count_bytes(b, state.WRITTEN_GLOBAL, exec, atomic.bytes)
    b.next()


def buffer_atomic(b: HandlerBuilder, atomic: Atomic) -> None:
    """Slots as for buffer loads; the result replaces the data when modifier "returns" is set. All or nothing in
    range."""
    lanes = BufferLanes(b)
    parts = lanes.general(atomic.bytes // 4)
    addresses, in_range = parts[0][0], parts[-1][1]
    mask = b.assign(f"and i64 {b.exec_bits()}, {b.bits_of_mask(in_range)}")
    check_allocated(b, addresses, mask, atomic.bytes, remembered=5)
    data = _data_rows(b, atomic, 0, separate=False)
    returns = b.key.modifier("returns")
    if returns:  # lanes out of range return 0; what they held as data is not needed any more
        zero = b.constant(U64 if atomic.bytes == 8 else U32, 0)
        b.store_register(b.slot(0), zero, b.active() & ~in_range)
    run_lanes(b, atomic, mask, data, data[0] if returns else None)
    count_bytes(b, state.WRITTEN_GLOBAL, mask, atomic.bytes)
    b.next()
