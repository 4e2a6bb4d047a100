"""Writing down what waves execute: a record before each instruction's own, and memory instructions that note addresses.

The record before an instruction adds a row of STEP to the launch's buffer; variants of memory instructions (flag
RECORDING, as for a check) add a row of ACCESS and one of 64 addresses for each access that they make. Waves run one
after another, so rows are in each wave's program order. A buffer that is full ends the launch with RECORDING_FULL.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ckmlir.sim import state
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder, HandlerKey
from ckmlir.sim.selected import Selected
from ckmlir.sim.state import ErrorKind

STEP_ROW: Final = np.dtype([("wave", "<u4"), ("instruction", "<u4"), ("accesses_before", "<u4"), ("lanes", "<u4")])
"""Wave in its workgroup, number of the instruction in the program, accesses noted earlier, lanes switched on."""
ACCESS_ROW: Final = np.dtype([("bytes", "<u4"), ("use", "<u4")])
"""Bytes of a lane, and what the access does (`checks.layout.Use`)."""
NO_ADDRESS: Final = 2**64 - 1
"""What an inactive lane has for an address."""
SPARE_ACCESSES: Final = 64
"""Rows that are left before an instruction begins: more than any makes accesses."""

STEP: Final = HandlerKey("record_step", ("i",))


def step_record(number: int) -> Selected:
    """What stands before the record of an instruction, which has this number in its program."""
    return Selected(STEP, (number,))


def emit_step(name: str) -> tuple[str, set[str]]:
    """The handler of STEP and the declarations it needs."""
    b = HandlerBuilder(STEP, 0)
    number, exec = b.slot(0), b.exec_bits()
    count = b.context_field(state.STEP_COUNT)
    accesses = b.context_field(state.ACCESS_COUNT)
    full = b.assign(f"icmp uge i64 {count}, {b.context_field(state.STEP_CAPACITY)}")
    needed = b.assign(f"add i64 {accesses}, {SPARE_ACCESSES}")
    crowded = b.assign(f"icmp ugt i64 {needed}, {b.context_field(state.ACCESS_CAPACITY)}")
    stop, go = b.new_label("full"), b.new_label("room")
    b.emit(f"br i1 {b.assign(f'or i1 {full}, {crowded}')}, label %{stop}, label %{go}")
    b.label(stop)
    b.fail(ErrorKind.RECORDING_FULL)
    b.label(go)
    rows = b.assign(f"inttoptr i64 {b.context_field(state.STEP_ROWS)} to ptr")
    row = b.pointer(rows, b.assign(f"mul i64 {count}, {STEP_ROW.itemsize}"))
    lanes = b.intrinsic("llvm.ctpop.i64", "i64", ("i64", exec))
    b.emit(f"store i32 {b.load_scalar(state.WAVE_NUMBER, U32)}, ptr {row}, align 4")
    for offset, value in ((4, number), (8, accesses), (12, lanes)):
        word = b.assign(f"trunc i64 {value} to i32")
        b.emit(f"store i32 {word}, ptr {b.pointer(row, offset)}, align 4")
    b.add_to_context_field(state.STEP_COUNT, "1")
    b.next()
    return b.function(name), b.text.declarations


def record_access(b: HandlerBuilder, mask: str, bytes: int, use: int) -> None:
    """Note the addresses of the lanes of a mask (an i64), which lie where memory instructions put them."""
    addresses = b.work(state.WORK_ADDRESSES)
    b.emit(f"call void @record_access(i64 {mask}, ptr {addresses}, ptr {b.context()}, i32 {bytes}, i32 {use})")


def helpers() -> dict[str, str]:
    """The functions that recording handlers call, by name."""
    return {"record_access": _RECORD_ACCESS}


def _field(offset: int, name: str) -> str:
    return (
        f"  %{name}_at = getelementptr i8, ptr %context, i64 {offset}\n  %{name} = load i64, ptr %{name}_at, align 8\n"
    )


_RECORD_ACCESS = f"""
define internal void @record_access(i64 %mask, ptr %addresses, ptr %context, i32 %bytes, i32 %use) #1 {{
entry:
{_field(state.ACCESS_COUNT, "count")}{_field(state.ACCESS_ROWS, "rows")}{_field(state.ADDRESS_ROWS, "lanes")}
  %rows_pointer = inttoptr i64 %rows to ptr
  %row_offset = mul i64 %count, {ACCESS_ROW.itemsize}
  %row = getelementptr i8, ptr %rows_pointer, i64 %row_offset
  store i32 %bytes, ptr %row, align 4
  %use_at = getelementptr i8, ptr %row, i64 4
  store i32 %use, ptr %use_at, align 4
  %lanes_pointer = inttoptr i64 %lanes to ptr
  %lanes_offset = mul i64 %count, 512
  %place = getelementptr i8, ptr %lanes_pointer, i64 %lanes_offset
  %noted = load <64 x i64>, ptr %addresses, align 64
  %active = bitcast i64 %mask to <64 x i1>
  %kept = select <64 x i1> %active, <64 x i64> %noted, <64 x i64> splat (i64 -1)
  store <64 x i64> %kept, ptr %place, align 8
  %count_next = add i64 %count, 1
  store i64 %count_next, ptr %count_at, align 8
  ret void
}}
"""
