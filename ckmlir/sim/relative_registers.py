"""Scalar instructions that choose registers at run time: s_set_gpr_idx_* (VGPR indexing, `register_index.py`), and the
relative moves s_movrels and s_movreld. AMD CDNA4 ISA, sections 5.8 and 6.6."""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.element import U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.register_index import GPR_INDEX_ENABLE
from ckmlir.sim.vector_alu import fetch_word

_SCALAR_REGISTERS = 102

# -- turning it on and off -------------------------------------------------------------------------------------------


def _operand(b: HandlerBuilder, slot: int) -> Value:
    return fetch_word(b, slot, b.key.operands[slot], U32)


def _set_index(b: HandlerBuilder, index: Value | None, operands: Value | None) -> None:
    m0 = Value(b, U32, b.load_scalar(state.M0, U32))
    if index is not None:
        m0 = (m0 & 0xFFFFFF00) | (index & 0xFF)
    if operands is not None:
        m0 = (m0 & 0xFFFF0FFF) | ((operands & 15) << 12)
    b.store_scalar(state.M0, m0.handle, U32)


def _enable(b: HandlerBuilder, on: bool) -> None:
    mode = Value(b, U32, b.load_scalar(state.MODE, U32))
    bit = 1 << GPR_INDEX_ENABLE
    b.store_scalar(state.MODE, (mode | bit if on else mode & ~bit & 0xFFFFFFFF).handle, U32)


def set_index_on(b: HandlerBuilder) -> None:
    """Slot 0: the index; slot 1: a constant, the operands it applies to."""
    _set_index(b, _operand(b, 0), _operand(b, 1))
    _enable(b, True)
    b.next()


def set_index_off(b: HandlerBuilder) -> None:
    _enable(b, False)
    b.next()


def set_index_operands(b: HandlerBuilder) -> None:
    """Slot 0: the operands the index applies to."""
    _set_index(b, None, _operand(b, 0))
    b.next()


def set_index_number(b: HandlerBuilder) -> None:
    """Slot 0: the index."""
    _set_index(b, _operand(b, 0), None)
    b.next()


# -- scalar registers ------------------------------------------------------------------------------------------------


def _relative(b: HandlerBuilder, slot: int, registers: int) -> tuple[str, str]:
    """The byte offset of a scalar register plus M0 registers, and whether it is one (an i1)."""
    m0 = b.assign(f"zext i32 {b.load_scalar(state.M0, U32)} to i64")
    offset = b.assign(f"add i64 {b.slot(slot)}, {b.assign(f'shl i64 {m0}, 2')}")
    last = state.SGPR + 4 * (_SCALAR_REGISTERS - registers)
    return offset, b.assign(f"icmp ule i64 {offset}, {last}")


def move_from_relative(b: HandlerBuilder) -> None:
    """s_movrels: slot 0 destination, slot 1 the register from which M0 counts. Past the last register: s0."""
    type = U64 if b.key.mnemonic.endswith("b64") else U32
    offset, exists = _relative(b, 1, type.registers)
    place = b.assign(f"select i1 {exists}, i64 {offset}, i64 {state.SGPR}")
    b.store_scalar(b.slot(0), b.load_scalar(place, type), type)
    b.next()


def move_to_relative(b: HandlerBuilder) -> None:
    """s_movreld: slot 0 the register from which M0 counts, slot 1 source. Past the last register nothing is written."""
    type = U64 if b.key.mnemonic.endswith("b64") else U32
    word = fetch_word(b, 1, b.key.operands[1], type).handle
    offset, exists = _relative(b, 0, type.registers)
    old = b.load_scalar(b.slot(0), type)
    place = b.assign(f"select i1 {exists}, i64 {offset}, i64 {b.slot(0)}")
    chosen = b.assign(f"select i1 {exists}, {b.element(type)} {word}, {b.element(type)} {old}")
    b.store_scalar(place, chosen, type)
    b.next()


EMITTERS: dict[str, Callable[[HandlerBuilder], None]] = {
    "s_set_gpr_idx_on": set_index_on,
    "s_set_gpr_idx_off": set_index_off,
    "s_set_gpr_idx_mode": set_index_operands,
    "s_set_gpr_idx_idx": set_index_number,
    "s_movrels_b32": move_from_relative,
    "s_movrels_b64": move_from_relative,
    "s_movreld_b32": move_to_relative,
    "s_movreld_b64": move_to_relative,
}
