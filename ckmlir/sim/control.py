"""Program flow and what belongs to the wave as a whole: branches, calls, barriers, the end, hardware registers, waits.

AMD CDNA3 ISA, chapter 4 "Program flow control" and section 12.5 (SOPP).
"""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.checks.observe import observe_barrier
from ckmlir.sim.element import U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.state import ErrorKind, Status
from ckmlir.sim.vector_alu import fetch_word

Emit = Callable[[HandlerBuilder], None]

_IDLE = """
    s_nop s_sethalt s_setprio s_wakeup s_setkill s_incperflevel s_decperflevel s_ttracedata
    v_nop v_clrexcp s_waitcnt ds_nop
    s_icache_inv s_dcache_inv s_dcache_wb s_dcache_inv_vol s_dcache_wb_vol s_dcache_discard s_dcache_discard_x2
    buffer_wbl2 buffer_invl2 buffer_inv buffer_wbinvl1 buffer_wbinvl1_vol s_atc_probe s_atc_probe_buffer s_sendmsg
"""
NO_OPERATION = frozenset(_IDLE.split())
"""Nothing to do when instructions execute in program order, one wave at a time, with no debugger and no host waiting
for an interrupt (`refused.py` has the forms of s_sethalt and s_sendmsg that would matter)."""

_CONDITIONS = {
    "s_cbranch_scc0": (state.SCC, "eq"), "s_cbranch_scc1": (state.SCC, "ne"),
    "s_cbranch_vccz": (state.VCC, "eq"), "s_cbranch_vccnz": (state.VCC, "ne"),
    "s_cbranch_execz": (state.EXEC, "eq"), "s_cbranch_execnz": (state.EXEC, "ne"),
}  # fmt: skip


_DEBUG_CONDITIONS = {
    "s_cbranch_cdbguser": (20, 0), "s_cbranch_cdbgsys": (21, 0),
    "s_cbranch_cdbgsys_or_user": (20, 21), "s_cbranch_cdbgsys_and_user": (20, 21),
}  # fmt: skip
"""The bits of STATUS that a debugger sets for conditional branches (ISA, section 3.5)."""


def no_operation(b: HandlerBuilder) -> None:
    b.next()


def jump(b: HandlerBuilder, record: str) -> None:
    """Go to a record, and count the branch against the launch's budget so that no kernel runs for ever. Stop where the
    thread that launched says so."""
    left = b.add_to_context_field(state.BRANCH_BUDGET, "-1")
    wanted = b.assign(f"sub i64 0, {b.context_field(state.STOP)}")  # negative
    exhausted = b.assign(f"icmp slt i64 {b.assign(f'or i64 {left}, {wanted}')}, 0")
    stop, go = b.new_label("exhausted"), b.new_label("go")
    b.emit(f"br i1 {exhausted}, label %{stop}, label %{go}")
    b.label(stop)
    b.fail(ErrorKind.ENDLESS)
    b.label(go)
    b.continue_at(record)


def branch(b: HandlerBuilder) -> None:
    """Slot 0: the distance in bytes from this record to the target's."""
    jump(b, b.pointer("%record", b.slot(0)))


def conditional_branch(b: HandlerBuilder) -> None:
    register, condition = _CONDITIONS[b.key.mnemonic]
    type = U32 if register == state.SCC else U64
    distance = b.slot(0)
    taken = b.assign(f"icmp {condition} {b.element(type)} {b.load_scalar(register, type)}, 0")
    target = b.pointer("%record", b.assign(f"select i1 {taken}, i64 {distance}, i64 {state.RECORD_BYTES}"))
    jump(b, target)


def debug_branch(b: HandlerBuilder) -> None:
    """s_cbranch_cdbg*. Slot 0: the distance to the target's record."""
    distance = b.slot(0)
    status = b.load_scalar(state.STATUS_REGISTER, U32)
    first, second = _DEBUG_CONDITIONS[b.key.mnemonic]
    bits = [b.assign(f"trunc i32 {b.assign(f'lshr i32 {status}, {bit}')} to i1") for bit in (first, second or first)]
    taken = b.assign(f"{'and' if '_and_' in b.key.mnemonic else 'or'} i1 {bits[0]}, {bits[1]}")
    target = b.pointer("%record", b.assign(f"select i1 {taken}, i64 {distance}, i64 {state.RECORD_BYTES}"))
    jump(b, target)


def jump_to_address(b: HandlerBuilder, address: str) -> None:
    """Go to a code address: the context maps each dword of code to a record number."""
    offset = b.assign(f"sub i64 {address}, {b.context_field(state.CODE_BASE)}")
    inside = b.assign(f"icmp ult i64 {offset}, {b.context_field(state.CODE_SIZE)}")
    look_up, bad, found = b.new_label("look_up"), b.new_label("bad"), b.new_label("found")
    b.emit(f"br i1 {inside}, label %{look_up}, label %{bad}")
    b.label(look_up)
    index_table = b.assign(f"inttoptr i64 {b.context_field(state.CODE_INDEX)} to ptr")
    word = b.assign(f"and i64 {offset}, -4")
    index = b.assign(f"load i32, ptr {b.pointer(index_table, word)}, align 4")
    b.emit(f"br i1 {b.assign(f'icmp slt i32 {index}, 0')}, label %{bad}, label %{found}")
    b.label(bad)
    b.fail(ErrorKind.BAD_BRANCH, address)
    b.label(found)
    records = b.assign(f"inttoptr i64 {b.context_field(state.RECORDS)} to ptr")
    distance = b.assign(f"mul i64 {b.assign(f'zext i32 {index} to i64')}, {state.RECORD_BYTES}")
    jump(b, b.pointer(records, distance))


def set_pc(b: HandlerBuilder) -> None:
    """s_setpc_b64. Slot 0: the register pair with the address."""
    jump_to_address(b, b.load_scalar(b.slot(0), U64))


def get_pc(b: HandlerBuilder) -> None:
    """s_getpc_b64. Slot 0: destination; slot 1: the address of the next instruction."""
    b.store_scalar(b.slot(0), b.slot(1), U64)
    b.next()


def swap_pc(b: HandlerBuilder) -> None:
    """s_swappc_b64. Slot 0: destination; slot 1: register pair with the address; slot 2: the address of the next
    instruction."""
    destination, back = b.slot(0), b.slot(2)
    address = b.load_scalar(b.slot(1), U64)
    b.store_scalar(destination, back, U64)
    jump_to_address(b, address)


def call(b: HandlerBuilder) -> None:
    """s_call_b64. Slot 0: destination; slot 1: distance of the target's record; slot 2: the address of the next
    instruction."""
    b.store_scalar(b.slot(0), b.slot(2), U64)
    jump(b, b.pointer("%record", b.slot(1)))


def end_program(b: HandlerBuilder) -> None:
    b.stop(Status.ENDED, "%record")


def barrier(b: HandlerBuilder) -> None:
    observe_barrier(b)
    b.stop(Status.BARRIER, b.pointer("%record", state.RECORD_BYTES))


def pause(b: HandlerBuilder) -> None:
    """s_sleep: where workgroups wait for each other, another one may go on."""
    pauses = b.assign(f"icmp ne i64 {b.context_field(state.PAUSES)}, 0")
    b.next_unless(pauses, Status.YIELDED)


def trap(b: HandlerBuilder) -> None:
    """s_trap. Slot 0: the trap's number."""
    b.fail(ErrorKind.TRAP, b.slot(0))


def set_vector_skip(b: HandlerBuilder) -> None:
    """s_setvskip: one bit of slot 0, numbered by slot 1, becomes MODE.VSKIP."""
    value, number = (fetch_word(b, slot, b.key.operands[slot], U32).handle for slot in (0, 1))
    amount = b.assign(f"and i32 {number}, 31")
    bit = b.assign(f"and i32 {b.assign(f'lshr i32 {value}, {amount}')}, 1")
    kept = b.assign(f"and i32 {b.load_scalar(state.MODE, U32)}, {~(1 << state.VECTOR_SKIP) & 0xFFFFFFFF}")
    placed = b.assign(f"shl i32 {bit}, {state.VECTOR_SKIP}")
    b.store_scalar(state.MODE, b.assign(f"or i32 {kept}, {placed}"), U32)
    b.next()


# -- hardware registers and counters ---------------------------------------------------------------------------------


def hardware_register(b: HandlerBuilder) -> tuple[int, int, int]:
    """(byte offset, first bit, mask) of the register field that s_getreg and s_setreg name."""
    field = b.key.modifier("register")
    bits = (field >> 11) + 1
    return state.HARDWARE_REGISTERS + 4 * (field & 31), field >> 6 & 31, (1 << bits) - 1


def _status(b: HandlerBuilder) -> str:
    """STATUS, whose bits for SCC (0), EXECZ (9) and VCCZ (10) come from the registers themselves."""
    status = Value(b, U32, b.load_scalar(state.STATUS_REGISTER, U32)) | Value(b, U32, b.load_scalar(state.SCC, U32))
    for register, bit in ((state.EXEC, 9), (state.VCC, 10)):
        empty = b.assign(f"icmp eq i64 {b.load_scalar(register, U64)}, 0")
        status = status | (Value(b, U32, b.assign(f"zext i1 {empty} to i32")) << bit)
    return str(status.handle)


def get_register(b: HandlerBuilder) -> None:
    offset, first, mask = hardware_register(b)
    word = _status(b) if offset == state.STATUS_REGISTER else b.load_scalar(offset, U32)
    shifted = b.assign(f"lshr i32 {word}, {first}")
    b.store_scalar(b.slot(0), b.assign(f"and i32 {shifted}, {mask}"), U32)
    b.next()


def set_register(b: HandlerBuilder) -> None:
    """s_setreg_b32 and s_setreg_imm32_b32. Slot 0: the source."""
    offset, first, mask = hardware_register(b)
    mask = mask << first & 0xFFFFFFFF
    source = b.load_scalar(b.slot(0), U32) if b.key.operands[0] == "s" else b.assign(f"trunc i64 {b.slot(0)} to i32")
    kept = b.assign(f"and i32 {b.load_scalar(offset, U32)}, {~mask & 0xFFFFFFFF}")
    placed = b.assign(f"and i32 {b.assign(f'shl i32 {source}, {first}')}, {mask}")
    b.store_scalar(offset, b.assign(f"or i32 {kept}, {placed}"), U32)
    b.next()


def read_time(b: HandlerBuilder) -> None:
    """s_memtime, s_memrealtime: a counter that only goes up, the same in every run."""
    b.store_scalar(b.slot(0), b.add_to_context_field(state.TIME, "64"), U64)
    b.next()


EMITTERS: dict[str, Emit] = {
    "no_operation": no_operation,
    "s_branch": branch,
    **dict.fromkeys(_CONDITIONS, conditional_branch),
    **dict.fromkeys(_DEBUG_CONDITIONS, debug_branch),
    "s_setpc_b64": set_pc,
    "s_getpc_b64": get_pc,
    "s_swappc_b64": swap_pc,
    "s_call_b64": call,
    "s_endpgm": end_program,
    "s_endpgm_saved": end_program,
    "s_endpgm_ordered_ps_done": end_program,
    "s_barrier": barrier,
    "s_sleep": pause,
    "s_trap": trap,
    "s_setvskip": set_vector_skip,
    "s_getreg_b32": get_register,
    "s_setreg_b32": set_register,
    "s_setreg_imm32_b32": set_register,
    "s_memtime": read_time,
    "s_memrealtime": read_time,
}
