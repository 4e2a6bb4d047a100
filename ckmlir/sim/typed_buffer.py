"""Typed buffer instructions: buffer_load_format_*, buffer_store_format_* and their tbuffer forms, with and without d16.

AMD CDNA3 ISA, chapter 9. MTBUF has the format in the instruction; MUBUF takes it from the resource (word 3: data format
18:15, number format 14:12), and lets DST_SEL (11:0) choose which component a load puts where. The range check is on the
whole element. Slots as for other buffer instructions.
"""

from __future__ import annotations

import re

from msgspec import Struct

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.buffer_access import DATA, OFFSET, REMEMBERED, BufferLanes
from ckmlir.sim.builder import Value
from ckmlir.sim.direct_to_lds import transfer_lds
from ckmlir.sim.element import U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.memory_access import check_allocated, transfer
from ckmlir.sim.semantics.buffer_formats import (
    element_bytes,
    loaded_component,
    narrowed_component,
    one_of,
    stored_element,
    widened_component,
)  # fmt: skip

_NAME = re.compile(r"t?buffer_(load|store)_format_(d16_)?(hi_)?(x|xy|xyz|xyzw)$")
_ONE, _FIRST_COMPONENT = 1, 4  # values of DST_SEL


class FormattedAccess(Struct, frozen=True):
    """What a mnemonic says: direction, components, and how they lie in registers ("whole", "d16" or "d16_hi")."""

    store: bool
    components: int
    form: str


def parse_formatted(mnemonic: str) -> FormattedAccess | None:
    match = _NAME.match(mnemonic)
    if not match:
        return None
    form = ("d16_hi" if match[3] else "d16") if match[2] else "whole"
    return FormattedAccess(match[1] == "store", len(match[4]), form)


class _Element:
    """The element that each lane accesses: its format, its size, and its address dword by dword."""

    def __init__(self, b: HandlerBuilder) -> None:
        self.b, self.lanes = b, BufferLanes(b, formatted=True)
        s, word = b.scalars(), self.lanes.words[3]
        typed = b.key.mnemonic.startswith("t")
        data = s.u32(b.key.modifier("dfmt")) if typed else (word >> 15) & 15
        number = s.u32(b.key.modifier("nfmt")) if typed else (word >> 12) & 7
        self.selections = None if typed else [(word >> (3 * c)) & 7 for c in range(4)]
        self.bytes = element_bytes(s, data)
        self.data_format, self.number_format = b.splat(U32, data.handle), b.splat(U32, number.handle)
        self.parts = self.lanes.general(4)
        bytes = b.splat(U64, self.bytes.to(U64).handle)
        self.in_range = self.lanes.whole_in_range(bytes) & bytes.ne(0)  # an invalid format has none
        self.mask = b.assign(f"and i64 {b.exec_bits()}, {b.bits_of_mask(self.in_range)}")

    def _if(self, condition: Value) -> str:
        """The lanes in range if a scalar condition holds, else none."""
        return self.b.assign(f"select i1 {condition.handle}, i64 {self.mask}, i64 0")

    def transfer(self, rows: str, store: bool) -> None:
        """Between memory and four rows of dwords; an element of one or two bytes is in the first."""
        b, bytes = self.b, self.bytes
        for k, (addresses, _) in enumerate(self.parts):
            row = b.pointer(rows, k * state.VGPR_BYTES)
            sizes = [(4, bytes > 4 * k)] if k else [(1, bytes.eq(1)), (2, bytes.eq(2)), (4, bytes >= 4)]
            for size, condition in sizes:
                mask = self._if(condition)
                check_allocated(b, addresses, mask, size, REMEMBERED)
                transfer(b, Access(size), row, mask, store)
        s = b.scalars()
        lanes = Value(s, U64, s.intrinsic("llvm.ctpop.i64", "i64", ("i64", self.mask)))
        counter = state.WRITTEN_GLOBAL if store else state.READ_GLOBAL
        b.add_to_context_field(counter, (lanes * bytes.to(U64)).handle)

    def selected(self, components: list[Value], position: int) -> Value:
        """The component that goes to a position of the result."""
        b = self.b
        if self.selections is None:
            return components[position]
        chosen = b.splat(U32, self.selections[position].handle)
        result = b.select(chosen.eq(_ONE), one_of(b, self.number_format), b.u32(0))
        for number, component in enumerate(components):
            result = b.select(chosen.eq(_FIRST_COMPONENT + number), component, result)
        return result


def formatted_load(b: HandlerBuilder, access: FormattedAccess) -> None:
    element = _Element(b)
    rows = b.work(state.WORK_ROWS)
    for k in range(4):
        b.emit(f"store <64 x i32> zeroinitializer, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, align 64")
    element.transfer(rows, store=False)
    if b.shadow:
        results = [_undefined(b, element, rows)] * access.components
    else:
        results = _loaded(b, element, rows, access.components)
    if b.key.modifier("lds"):
        b.emit(f"store {b.typed(results[0])}, ptr {rows}, align 64")
        transfer_lds(b, Access(4), b.slot(OFFSET), store=True)
    elif access.form == "whole":
        for number, result in enumerate(results):
            b.store_register(_register(b, number), result, b.active())
    else:
        halves = [
            result & 0xFFFF if b.shadow else narrowed_component(b, result, element.number_format) for result in results
        ]
        _write_halves(b, halves, access.form == "d16_hi")
    b.next()


def _loaded(b: HandlerBuilder, element: _Element, rows: str, count: int) -> list[Value]:
    """The components that a load gives, of the element's dwords in four rows."""
    words = [
        Value(b, U32, b.assign(f"load <64 x i32>, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, align 64"))
        for k in range(4)
    ]
    formats = (element.data_format, element.number_format)
    components = [loaded_component(b, words, c, *formats) for c in range(4)]
    return [b.select(element.in_range, element.selected(components, c), b.u32(0)) for c in range(count)]


def _undefined(b: HandlerBuilder, element: _Element, rows: str) -> Value:
    """The shadow of every component of elements whose dwords' shadows are in four rows: all or nothing, since
    conversions mix bits."""
    total = b.u32(0)
    for k in range(4):
        row = b.assign(f"load <64 x i32>, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, align 64")
        total = total | Value(b, U32, row)
    return b.select(total.ne(0) & element.in_range, b.constant(U32, -1), b.u32(0))


def _register(b: HandlerBuilder, number: int) -> str:
    return b.assign(f"add i64 {b.slot(DATA)}, {number * state.VGPR_BYTES}")


def _write_halves(b: HandlerBuilder, halves: list[Value], high: bool) -> None:
    """Two components a register; a single one keeps the register's other half."""
    for number in range(0, len(halves), 2):
        register = _register(b, number // 2)
        if number + 1 < len(halves):
            word = halves[number] | (halves[number + 1] << 16)
        else:
            old = b.load_register(register, U32)
            word = (old & 0xFFFF) | (halves[number] << 16) if high else (old & 0xFFFF0000) | halves[number]
        b.merge_register(register, word, b.active())


def formatted_store(b: HandlerBuilder, access: FormattedAccess) -> None:
    element = _Element(b)
    values = []
    for number in range(access.components):
        if access.form == "whole":
            values.append(b.load_register(_register(b, number), U32))
        else:
            word = b.load_register(_register(b, number // 2), U32)
            half = word >> 16 if number % 2 or access.form == "d16_hi" else word
            values.append(half & 0xFFFF if b.shadow else widened_component(b, half, element.number_format))
    rows = b.work(state.WORK_ROWS)
    words = _mixed(b, values) if b.shadow else stored_element(b, values, element.data_format, element.number_format)
    for k, word in enumerate(words):
        b.emit(f"store {b.typed(word)}, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, align 64")
    element.transfer(rows, store=True)
    b.next()


def _mixed(b: HandlerBuilder, shadows: list[Value]) -> list[Value]:
    """The shadow of a stored element of components with these: all or nothing."""
    total = b.u32(0)
    for shadow in shadows:
        total = total | shadow
    return [b.select(total.ne(0), b.constant(U32, -1), b.u32(0))] * 4
