"""The race check of LDS: every byte has the places, in the round between two barriers, of its last accesses.

Two accesses conflict when different waves make them in one round and one of the two writes; atomic accesses do not
conflict with each other (`race_memory.py` has the words). Each byte keeps tags of its last writer, its last reader, and
the last reader of another wave. A tag is a wave's position in the round, from 1, in a byte; the scheduler clears all
with every round. LDS of n bytes has three arrays of n tags (writer, reader, other reader), then two of n / 4 u32: the
records of the last write and read of each dword.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.checks.layout import Kind, Use
from ckmlir.sim.checks.recording import lds_loop
from ckmlir.sim.ir_text import field

SIZES = (1, 2, 4, 8, 12, 16)
"""Bytes of a lane's access that have a function; longer ones are checked in pieces of 16."""

_NAMES = {Use.READ: "read", Use.WRITE: "write", Use.ATOMIC: "atomic", Use.SAME: "same"}
TAGS = 3
"""Bytes of tags for each byte of LDS, which the scheduler clears."""
CELLS = TAGS + 2
"""All bytes that are kept for each byte of LDS."""
_WRITER, _READER, _OTHER, _WRITE_RECORDS, _READ_RECORDS = range(5)
"""The arrays: each begins as many times the bytes of LDS behind the first."""
_ATOMIC = 0x80  # of a writer's tag


def lds_helper(use: int, bytes: int) -> str:
    """The name of the function for a use and a size."""
    return f"race_lds_{_NAMES[use]}_{bytes}"


def _array_place(name: str, index: int) -> str:
    """%NAME_at: the tag of the byte at %offset in an array."""
    return (
        f"  %{name}_array = mul i64 %count, {index}\n"
        f"  %{name}_start = add i64 %cells, %{name}_array\n"
        f"  %{name}_place = add i64 %{name}_start, %offset\n"
        f"  %{name}_at = inttoptr i64 %{name}_place to ptr\n"
    )


def _splat(name: str, scalar: str, type: str, n: int) -> str:
    return (
        f"  %{name}_first = insertelement <{n} x {type}> poison, {type} {scalar}, i64 0\n"
        f"  %{name} = shufflevector <{n} x {type}> %{name}_first, <{n} x {type}> poison, <{n} x i32> zeroinitializer\n"
    )


def _unordered(tag: str, name: str, n: int) -> str:
    """%NAME: which tags are of accesses of other waves in this round."""
    return (
        f"  %{name}_other = icmp ne <{n} x i8> {tag}, %turn\n"
        f"  %{name}_used = icmp ne <{n} x i8> {tag}, zeroinitializer\n"
        f"  %{name} = and <{n} x i1> %{name}_other, %{name}_used\n"
    )


def _turn(n: int) -> str:
    """%turn: this access's tag."""
    return (
        field("context", state.TURN, "turn64")
        + field("context", state.ROUND_START, "round64")
        + "  %position = sub i64 %turn64, %round64\n"
        "  %position1 = add i64 %position, 1\n"
        "  %tag_scalar = trunc i64 %position1 to i8\n" + _splat("turn", "%tag_scalar", "i8", n)
    )


def _record_number() -> str:
    return field("context", state.RECORDS, "records") + (
        "  %record_bits = ptrtoint ptr %record to i64\n"
        "  %distance = sub i64 %record_bits, %records\n"
        f"  %number = udiv i64 %distance, {state.RECORD_BYTES}\n"
        "  %number32 = trunc i64 %number to i32\n"
    )


def _store_record(index: int, n: int) -> str:
    dwords = max(1, n // 4)
    return (
        f"  %history_array = mul i64 %count, {index}\n"
        f"  %history_start = add i64 %cells, %history_array\n"
        f"  %dword_offset = and i64 %offset, -4\n"
        f"  %history_place = add i64 %history_start, %dword_offset\n"
        f"  %history_at = inttoptr i64 %history_place to ptr\n"
        + _splat("numbers", "%number32", "i32", dwords)
        + f"  store <{dwords} x i32> %numbers, ptr %history_at, align 4\n"
    )


def _conflict(use: int, n: int) -> str:
    """%conflict: bytes of this access that conflict with an earlier one."""
    v, truth = f"<{n} x i8>", f"<{n} x i1>"
    text = _array_place("writer", _WRITER) + f"  %writer = load {v}, ptr %writer_at, align 1\n"
    text += f"  %writer_turn = and {v} %writer, splat (i8 {_ATOMIC - 1})\n"
    text += _unordered("%writer_turn", "after_write", n)
    plain = (
        f"icmp sge {v} %writer, zeroinitializer" if use == Use.ATOMIC else f"or {truth} splat (i1 true), %after_write"
    )
    text += f"  %counts = {plain}\n  %conflict_write = and {truth} %after_write, %counts\n"
    text += _array_place("reader", _READER) + f"  %reader = load {v}, ptr %reader_at, align 1\n"
    if use == Use.READ:
        return text + f"  %conflict = or {truth} %conflict_write, zeroinitializer\n"
    text += _array_place("other", _OTHER) + f"  %other = load {v}, ptr %other_at, align 1\n"
    text += _unordered("%reader", "after_read", n) + _unordered("%other", "after_other", n)
    return text + (
        f"  %after_any = or {truth} %after_read, %after_other\n  %conflict = or {truth} %conflict_write, %after_any\n"
    )


def _note_read(n: int) -> str:
    """Enter a read, unless this wave has read the bytes already."""
    v, truth = f"<{n} x i8>", f"<{n} x i1>"
    return f"""  %unnoted = icmp ne {v} %reader, %turn
  %unnoted_bits = bitcast {truth} %unnoted to i{n}
  %all_noted = icmp eq i{n} %unnoted_bits, 0
  br i1 %all_noted, label %next, label %remember
remember:
{_array_place("other", _OTHER)}  %other = load {v}, ptr %other_at, align 1
  %noted = xor {truth} %unnoted, splat (i1 true)
  %reader_unused = icmp eq {v} %reader, zeroinitializer
  %keep = or {truth} %reader_unused, %noted
  %other_new = select {truth} %keep, {v} %other, {v} %reader
  store {v} %other_new, ptr %other_at, align 1
  store {v} %turn, ptr %reader_at, align 1
{_store_record(_READ_RECORDS, n)}  br label %next
"""


def _note_write(use: int, n: int) -> str:
    v = f"<{n} x i8>"
    mark = _ATOMIC if use == Use.ATOMIC else 0
    return (
        f"  %write_tag = or {v} %turn, splat (i8 {mark})\n  store {v} %write_tag, ptr %writer_at, align 1\n"
        + _store_record(_WRITE_RECORDS, n)
        + "  br label %next\n"
    )


def _race_function(use: int, n: int) -> str:
    body = f"""{_conflict(use, n)}
  %conflict_bits = bitcast <{n} x i1> %conflict to i{n}
  %peaceful = icmp eq i{n} %conflict_bits, 0
  br i1 %peaceful, label %update, label %report
report:
  call void @report_lds_race(ptr %wave, ptr %record, i64 %lane, i64 %address, i64 %cells, i64 %count, i64 %offset,
                             i64 {n}, i64 {use})
  br label %update
update:
{_note_read(n) if use == Use.READ else _note_write(use, n)}"""
    before = _turn(n) + _record_number() + field("context", state.LDS_CELLS, "cells")
    return lds_loop(lds_helper(use, n), body, before)


def _report_function() -> str:
    """Finds the first byte of a lane's access that conflicts, and with which access, and notes a finding."""
    tags = "".join(
        _array_place(name, index) + f"  %{name} = load i8, ptr %{name}_at, align 1\n"
        for index, name in enumerate(("writer", "reader", "other"))
    )
    vectors = "".join(f"  %{name}_v = bitcast i8 %{name} to <1 x i8>\n" for name in ("writer_turn", "reader", "other"))
    unordered = "".join(
        _unordered(f"%{tag}_v", f"{name}_v", 1) + f"  %{name} = extractelement <1 x i1> %{name}_v, i64 0\n"
        for tag, name in (("writer_turn", "after_write"), ("reader", "after_read"), ("other", "after_other"))
    )
    return f"""
define internal void @report_lds_race(ptr %wave, ptr %record, i64 %lane, i64 %address, i64 %cells, i64 %count,
                                      i64 %start, i64 %bytes, i64 %use) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{_turn(1)}
  %base = sub i64 %round64, 1
  %reads = icmp eq i64 %use, {Use.READ}
  %is_same = icmp eq i64 %use, {Use.SAME}
  %write_kind = select i1 %is_same, i64 {Kind.RACE_EQUAL}, i64 {Kind.RACE_WITH_WRITE}
  %not_atomic = icmp ne i64 %use, {Use.ATOMIC}
  %lane_bit = shl i64 1, %lane
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k_next, %next ]
  %at_end = icmp uge i64 %k, %bytes
  br i1 %at_end, label %done, label %byte
byte:
  %offset = add i64 %start, %k
  %dword_offset = and i64 %offset, -4
  %byte_address = add i64 %address, %k
{tags}  %writer_turn = and i8 %writer, {_ATOMIC - 1}
{vectors}{unordered}
  %plain_write = icmp sge i8 %writer, 0
  %counts = or i1 %plain_write, %not_atomic
  %with_write = and i1 %after_write, %counts
  br i1 %with_write, label %write, label %no_write
no_write:
  %some_read = or i1 %after_read, %after_other
  %not_reading = xor i1 %reads, true
  %with_read = and i1 %some_read, %not_reading
  br i1 %with_read, label %read, label %next
next:
  %k_next = add i64 %k, 1
  br label %head
write:
  %writers_array = mul i64 %count, {_WRITE_RECORDS}
  %write_tag = zext i8 %writer_turn to i64
  br label %found
read:
  %readers_array = mul i64 %count, {_READ_RECORDS}
  %chosen = select i1 %after_read, i8 %reader, i8 %other
  %read_tag = zext i8 %chosen to i64
  br label %found
found:
  %array = phi i64 [ %writers_array, %write ], [ %readers_array, %read ]
  %tag = phi i64 [ %write_tag, %write ], [ %read_tag, %read ]
  %kind = phi i64 [ %write_kind, %write ], [ {Kind.RACE_WITH_READ}, %read ]
  %turn_of_tag = add i64 %tag, %base
  %records_start = add i64 %cells, %array
  %records_place = add i64 %records_start, %dword_offset
  %records_at = inttoptr i64 %records_place to ptr
  %number = load i32, ptr %records_at, align 4
  %other_record = zext i32 %number to i64
  call void @note_finding(ptr %wave, ptr %record, i64 %kind, i64 %lane_bit, i64 %byte_address, i64 %turn_of_tag,
                          i64 %other_record)
  br label %done
done:
  ret void
}}
"""


def helpers() -> dict[str, str]:
    """All functions of this check by name."""
    return {lds_helper(use, n): _race_function(use, n) for use in _NAMES for n in SIZES} | {
        "report_lds_race": _report_function()
    }
