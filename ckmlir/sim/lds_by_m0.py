"""LDS instructions whose address is M0[15:0] plus the instruction's offset: ds_append and ds_consume, which count
active lanes, and ds_read_addtid and ds_write_addtid, which add four bytes a lane. AMD CDNA3 ISA, section 12.13; LLVM
puts the LDS address of an append into M0 (AMDGPUISelDAGToDAG.cpp, SelectDSAppendConsume)."""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.builder import Value
from ckmlir.sim.checks.layout import Use
from ckmlir.sim.checks.observe import observe
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.memory_access import (
    branch_if_any,
    count_bytes,
    lds_addresses,
    low_word,
    preload,
    register_rows,
    transfer,
)  # fmt: skip
from ckmlir.sim.transfers import work_addresses


def _base(b: HandlerBuilder) -> Value:
    return b.splat(U32, b.assign(f"and i32 {b.load_scalar(state.M0, U32)}, 65535"))


def count_lanes(b: HandlerBuilder, sign: int) -> None:
    """ds_append (sign 1), ds_consume (-1): add the number of active lanes to a dword; all get what it was. Slots:
    destination, offset."""
    preload(b, 2)
    exec = b.exec_bits()
    lds_addresses(b, _base(b), low_word(b, b.slot(1)), exec, 4)
    if b.shadow:  # the sum is as undefined as the dword was
        transfer(b, Access(4), register_rows(b, 0), exec, store=False)
        return
    observe(b, b.assign(f"and i64 {exec}, {b.assign(f'sub i64 0, {exec}')}"), 4, Use.ATOMIC)  # one lane's access
    _, join = branch_if_any(b, exec, "count")
    first = b.assign(f"load i64, ptr {work_addresses(b)}, align 8")
    place = b.assign(f"inttoptr i64 {first} to ptr")
    old = b.assign(f"load i32, ptr {place}, align 4")
    lanes = b.assign(f"trunc i64 {b.scalars().intrinsic('llvm.ctpop.i64', 'i64', ('i64', exec))} to i32")
    new = b.assign(f"{'add' if sign > 0 else 'sub'} i32 {old}, {lanes}")
    b.emit(f"store i32 {new}, ptr {place}, align 4")
    b.store_register(b.slot(0), b.splat(U32, old), b.active())
    b.emit(f"br label %{join}")
    b.label(join)
    count_bytes(b, state.WRITTEN_LDS, exec, 4)
    b.next()


def lane_after_lane(b: HandlerBuilder, store: bool) -> None:
    """ds_read_addtid_b32, ds_write_addtid_b32. Slots: data, offset."""
    preload(b, 2)
    exec = b.exec_bits()
    lds_addresses(b, _base(b) + b.lane() * 4, low_word(b, b.slot(1)), exec, 4)
    transfer(b, Access(4), register_rows(b, 0), exec, store)
    count_bytes(b, state.WRITTEN_LDS if store else state.READ_LDS, exec, 4)
    b.next()
