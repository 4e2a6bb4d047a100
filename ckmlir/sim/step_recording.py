"""Writing down what waves execute: a record before each straight run of instructions, and memory instructions that note
addresses.

Instructions of a run execute one after the other with the same lanes on (`run_starts`), so one row of RUN stands for
all of them; what is in a run is known from the code. Variants of memory instructions (flag RECORDING, as for a check)
add a row of ACCESS for each access that they make: its lowest address, and which pattern the lanes make from there.
Patterns are few: PATTERN_TABLE finds those that are known by a hash, and only others become new rows of PATTERN_ROWS
(one that another has displaced in the table may come twice). Waves run one after another, so rows are in each wave's
program order. Buffers that are full end the launch with RECORDING_FULL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from ckmlir.sim import state
from ckmlir.sim.decode import Instruction
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder, HandlerKey
from ckmlir.sim.selected import Selected
from ckmlir.sim.state import ErrorKind

RUN_ROW: Final = np.dtype(
    [("group", "<u4"), ("instruction", "<u4"), ("accesses_before", "<u4"), ("wave", "<u2"), ("lanes", "<u2")]
)
"""Number of the workgroup, that of the run's first instruction in the program, accesses noted earlier, wave in its
workgroup, lanes switched on."""
ACCESS_ROW: Final = np.dtype([("base", "<u8"), ("pattern", "<u4"), ("record", "<u4"), ("bytes", "<u4"), ("use", "<u4")])
"""The lowest address (NO_ADDRESS without active lanes), row of PATTERN_ROWS, number of the instruction's record, bytes
of a lane, and what the access does (`checks.layout.Use`)."""
NO_ADDRESS: Final = 2**64 - 1
"""What an inactive lane has for an address, and for its distance from the lowest one."""
SPARE_ACCESSES: Final = 64
"""Rows that are left for each memory instruction of a run before it begins: more than any makes accesses."""
TABLE_BITS: Final = 16
"""PATTERN_TABLE has 1 << this many entries, each the number of a pattern; 0 is the one without lanes."""

RUN: Final = HandlerKey("record_run", ("i", "i", "i"))


def run_starts(instructions: Sequence[Instruction]) -> list[int]:
    """Numbers of the instructions that begin a run, the first one among them: where a branch may go to, and what comes
    after an instruction that branches, stops its wave or switches lanes. Where jumps may go anywhere, all do."""
    from ckmlir.sim.analysis.effects import Category, effects_of  # the analysis is only imported where it is used
    from ckmlir.sim.analysis.registers import EXEC

    targets = {one.branch_target for one in instructions}
    starts, ended = [], True
    for number, one in enumerate(instructions):
        if ended or one.address in targets:
            starts.append(number)
        effects = effects_of(one)
        if _JUMPS.fullmatch(one.mnemonic):
            return list(range(len(instructions)))
        ended = bool(effects.writes & EXEC) or (effects.category is Category.CONTROL and one.mnemonic not in _GO_ON)
    return starts


_JUMPS: Final = re.compile(r"s_(setpc|swappc|call|rfe|rfe_restore)_b64|s_cbranch_(g_fork|i_fork|join)")
_GO_ON: Final = ("s_waitcnt", "s_nop", "s_setprio", "s_sleep")
_MEMORY: Final = ("DS", "FLAT", "GLOBAL", "SCRATCH", "MUBUF", "MTBUF", "SMEM")


def run_records(instructions: Sequence[Instruction]) -> dict[int, Selected]:
    """What stands before the records of instructions that begin a run, by their number in the program."""
    starts = run_starts(instructions)
    found = {}
    for first, end in zip(starts, [*starts[1:], len(instructions)]):
        accessing = sum(one.encoding in _MEMORY for one in instructions[first:end])
        found[first] = Selected(RUN, (first, end - first, SPARE_ACCESSES * accessing))
    return found


def emit_run(name: str) -> tuple[str, set[str]]:
    """The handler of RUN and the declarations it needs. Slots: the first instruction, how many there are, and for how
    many accesses there has to be room."""
    b = HandlerBuilder(RUN, 0)
    number, length, spare, exec = b.slot(0), b.slot(1), b.slot(2), b.exec_bits()
    runs, accesses = b.context_field(state.RUN_COUNT), b.context_field(state.ACCESS_COUNT)
    steps = b.assign(f"add i64 {b.context_field(state.STEP_COUNT)}, {length}")
    full = b.assign(f"icmp ugt i64 {steps}, {b.context_field(state.STEP_CAPACITY)}")
    needed = b.assign(f"add i64 {accesses}, {spare}")
    crowded = b.assign(f"icmp ugt i64 {needed}, {b.context_field(state.ACCESS_CAPACITY)}")
    stop, go = b.new_label("full"), b.new_label("room")
    b.emit(f"br i1 {b.assign(f'or i1 {full}, {crowded}')}, label %{stop}, label %{go}")
    b.label(stop)
    b.fail(ErrorKind.RECORDING_FULL)
    b.label(go)
    rows = b.assign(f"inttoptr i64 {b.context_field(state.RUN_ROWS)} to ptr")
    row = b.pointer(rows, b.assign(f"mul i64 {runs}, {RUN_ROW.itemsize}"))
    lanes = b.intrinsic("llvm.ctpop.i64", "i64", ("i64", exec))
    wave = b.assign(f"zext i32 {b.load_scalar(state.WAVE_NUMBER, U32)} to i64")
    values = (b.context_field(state.CURRENT_GROUP), number, accesses, wave, lanes)
    for field, value in zip(RUN_ROW.names or (), values, strict=True):
        bits, offset = 8 * RUN_ROW[field].itemsize, offset_of(RUN_ROW, field)
        b.emit(f"store i{bits} {b.assign(f'trunc i64 {value} to i{bits}')}, ptr {b.pointer(row, offset)}, align 2")
    b.add_to_context_field(state.RUN_COUNT, "1")
    b.add_to_context_field(state.STEP_COUNT, length)
    b.next()
    return b.function(name), b.text.declarations


def offset_of(row: np.dtype[np.void], field: str) -> int:
    """Where a field of a row begins, in bytes."""
    assert row.fields is not None
    return int(row.fields[field][1])


def record_access(b: HandlerBuilder, mask: str, bytes: int, use: int) -> None:
    """Note an access of the lanes of a mask (an i64), whose addresses lie where memory instructions put them."""
    addresses = b.work(state.WORK_ADDRESSES)
    b.emit(
        f"call void @record_access(i64 {mask}, ptr {addresses}, ptr {b.context()}, ptr %record, i32 {bytes}, i32 {use})"
    )


def helpers() -> dict[str, str]:
    """The functions that recording handlers call, by name."""
    return {"record_access": _RECORD_ACCESS}


def _field(offset: int, name: str) -> str:
    return (
        f"  %{name}_at = getelementptr i8, ptr %context, i64 {offset}\n  %{name} = load i64, ptr %{name}_at, align 8\n"
    )


def _entry(name: str, rows: str, index: str, size: int) -> str:
    """A pointer to an entry of rows whose address is an i64."""
    return f"""  %{name}_offset = mul i64 {index}, {size}
  %{name}_address = add i64 {rows}, %{name}_offset
  %{name} = inttoptr i64 %{name}_address to ptr
"""


def _store(row: str, field: str, value: str) -> str:
    offset = offset_of(ACCESS_ROW, field)
    return f"""  %{field}_place = getelementptr i8, ptr %{row}, i64 {offset}
  store {value}, ptr %{field}_place, align 4
"""


_FACTORS: Final = ", ".join(f"i64 {pow(0x9E3779B97F4A7C15, 2 * lane + 1, 2**64)}" for lane in range(64))
"""Odd, and not linear in the lane: swizzled patterns are permutations of each other."""

_RECORD_ACCESS = f"""
declare i64 @llvm.vector.reduce.umin.v64i64(<64 x i64>)
declare i64 @llvm.vector.reduce.add.v64i64(<64 x i64>)
declare i1 @llvm.vector.reduce.or.v64i1(<64 x i1>)
define internal void @record_access(i64 %mask, ptr %addresses, ptr %context, ptr %record, i32 %bytes, i32 %use) #1 {{
entry:
{_field(state.ACCESS_COUNT, "count")}{_field(state.ACCESS_ROWS, "rows")}{_field(state.PATTERN_ROWS, "patterns")}
{_field(state.RECORDS, "records")}{_field(state.PATTERN_TABLE, "table")}
  %record_address = ptrtoint ptr %record to i64
  %record_distance = sub i64 %record_address, %records
  %record_number = udiv exact i64 %record_distance, {state.RECORD_BYTES}
  %number = trunc i64 %record_number to i32
  %noted = load <64 x i64>, ptr %addresses, align 64
  %active = bitcast i64 %mask to <64 x i1>
  %kept = select <64 x i1> %active, <64 x i64> %noted, <64 x i64> splat (i64 -1)
  %base = call i64 @llvm.vector.reduce.umin.v64i64(<64 x i64> %kept)
  %base_first = insertelement <64 x i64> poison, i64 %base, i64 0
  %base_lanes = shufflevector <64 x i64> %base_first, <64 x i64> poison, <64 x i32> zeroinitializer
  %apart = sub <64 x i64> %kept, %base_lanes
  %pattern = select <64 x i1> %active, <64 x i64> %apart, <64 x i64> splat (i64 -1)
  %mixed = mul <64 x i64> %pattern, <{_FACTORS}>
  %sum = call i64 @llvm.vector.reduce.add.v64i64(<64 x i64> %mixed)
  %hash = lshr i64 %sum, {64 - TABLE_BITS}
{_entry("entry_of_hash", "%table", "%hash", 4)}
  %known_number = load i32, ptr %entry_of_hash, align 4
  %known_index = zext i32 %known_number to i64
{_entry("known", "%patterns", "%known_index", 512)}
  %last = load <64 x i64>, ptr %known, align 8
  %differ = icmp ne <64 x i64> %last, %pattern
  %any = call i1 @llvm.vector.reduce.or.v64i1(<64 x i1> %differ)
  br i1 %any, label %new, label %note
new:
{_field(state.PATTERN_COUNT, "pattern_count")}{_entry("fresh", "%patterns", "%pattern_count", 512)}
  store <64 x i64> %pattern, ptr %fresh, align 8
  %pattern_number = trunc i64 %pattern_count to i32
  store i32 %pattern_number, ptr %entry_of_hash, align 4
  %pattern_next = add i64 %pattern_count, 1
  store i64 %pattern_next, ptr %pattern_count_at, align 8
  br label %note
note:
  %made = phi i32 [ %known_number, %entry ], [ %pattern_number, %new ]
{_entry("row", "%rows", "%count", ACCESS_ROW.itemsize)}
{_store("row", "base", "i64 %base")}{_store("row", "pattern", "i32 %made")}{_store("row", "record", "i32 %number")}
{_store("row", "bytes", "i32 %bytes")}{_store("row", "use", "i32 %use")}
  %count_next = add i64 %count, 1
  store i64 %count_next, ptr %count_at, align 8
  ret void
}}
"""
