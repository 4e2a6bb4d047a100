"""s_cbranch_g_fork, s_cbranch_i_fork and s_cbranch_join: divergent branches with a stack in scalar registers.

AMD CDNA3 ISA, sections 12.1 to 12.4. A fork goes on with the smaller side and pushes the other's execution mask and
address on four scalar registers at 4 * MODE.CSP; a join takes them from there until CSP is what it was before.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.control import jump_to_address
from ckmlir.sim.element import MASK, U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.vector_alu import fetch_word

_STACK_POINTER = 29  # first bit of MODE.CSP, which has three


def _stack_pointer(b: HandlerBuilder) -> Value:
    return Value(b, U32, b.load_scalar(state.MODE, U32)) >> _STACK_POINTER


def _set_stack_pointer(b: HandlerBuilder, number: Value) -> None:
    mode = Value(b, U32, b.load_scalar(state.MODE, U32)) & (1 << _STACK_POINTER) - 1
    b.store_scalar(state.MODE, (mode | (number << _STACK_POINTER)).handle, U32)


def _entry(b: HandlerBuilder, number: Value) -> tuple[str, str]:
    """Byte offsets in the wave of a stack entry's mask and address."""
    mask = b.assign(f"add i64 {(number.to(U64) << 4).handle}, {state.SGPR}")
    return mask, b.assign(f"add i64 {mask}, 8")


def _go_to(b: HandlerBuilder, condition: Value, address: str) -> None:
    """To the address if the condition holds, else to the next instruction."""
    target, following = b.new_label("target"), b.new_label("following")
    b.emit(f"br i1 {condition.handle}, label %{target}, label %{following}")
    b.label(target)
    jump_to_address(b, address)
    b.label(following)
    b.next()


def _fork(b: HandlerBuilder, mask: Value, target: Value, following: Value) -> None:
    exec = Value(b, U64, b.load_scalar(state.EXEC, U64))
    passing, failing = mask & exec, ~mask & exec
    diverges = passing.ne(exec) & failing.ne(exec)
    fewer_fail = b.unary("count_ones", failing) < b.unary("count_ones", passing)
    push, go = b.new_label("push"), b.new_label("go")
    b.emit(f"br i1 {diverges.handle}, label %{push}, label %{go}")
    b.label(push)
    number = _stack_pointer(b)
    mask_place, address_place = _entry(b, number)
    b.store_scalar(mask_place, b.select(fewer_fail, passing, failing).handle, U64)
    b.store_scalar(address_place, b.select(fewer_fail, target, following).handle, U64)
    b.store_scalar(state.EXEC, b.select(fewer_fail, failing, passing).handle, U64)
    _set_stack_pointer(b, number + 1)
    b.emit(f"br label %{go}")
    b.label(go)
    _go_to(b, passing.eq(exec) | (diverges & ~fewer_fail), target.handle)


def fork_to_register(b: HandlerBuilder) -> None:
    """s_cbranch_g_fork. Slots: mask, target address, the address of the next instruction."""
    mask, target = (fetch_word(b, slot, b.key.operands[slot], U64) for slot in (0, 1))
    _fork(b, mask, target, Value(b, U64, b.slot(2)))


def fork_to_offset(b: HandlerBuilder) -> None:
    """s_cbranch_i_fork. Slots: mask, distance of the target from the next instruction, whose address is slot 2."""
    mask, following = fetch_word(b, 0, b.key.operands[0], U64), Value(b, U64, b.slot(2))
    _fork(b, mask, following + Value(b, U64, b.slot(1)), following)


def join(b: HandlerBuilder) -> None:
    """s_cbranch_join. Slot 0: the stack pointer before the fork."""
    before, number = fetch_word(b, 0, b.key.operands[0], U32), _stack_pointer(b)
    pop, done = b.new_label("pop"), b.new_label("done")
    b.emit(f"br i1 {before.eq(number).handle}, label %{done}, label %{pop}")
    b.label(pop)
    top = (number - 1) & 7
    mask_place, address_place = _entry(b, top)
    b.store_scalar(state.EXEC, b.load_scalar(mask_place, U64), U64)
    _set_stack_pointer(b, top)
    _go_to(b, Value(b, MASK, "true"), b.load_scalar(address_place, U64))
    b.label(done)
    b.next()


EMITTERS = {
    "s_cbranch_g_fork": fork_to_register,
    "s_cbranch_i_fork": fork_to_offset,
    "s_cbranch_join": join,
}
