"""The compiled race check: every byte of LDS and of shared memory has the turns of its last accesses.

A turn is one wave's run from barrier to barrier; turns are numbered in the order in which they are simulated. Two
accesses are ordered when they are in one turn, or in one workgroup with a barrier between. An access conflicts with an
earlier one that is not ordered before it if one of the two writes; atomic accesses do not conflict with each other.

Each byte keeps tags of its last writer, its last reader, and one more reader: one from an earlier workgroup if there is
any (nothing orders it before this workgroup), else the last one of another turn. That is enough to find a conflict
whenever there is one. Tags of global memory are turns. LDS only needs the current round between two barriers, so its
tags are positions in the round, from 1, in a byte, and the scheduler clears them with every round.

Synchronisation by atomic flags is not understood: accesses that only such a flag orders are reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.sim import state
from ckmlir.sim.checks import layout
from ckmlir.sim.checks.layout import Kind, Use
from ckmlir.sim.checks.recording import close_lane_loop, lane_loop, lds_loop
from ckmlir.sim.ir_text import field

SIZES = (1, 2, 4, 8, 12, 16)
"""Bytes of a lane's access that have a function; longer ones are checked in pieces of 16."""

_NAMES = {Use.READ: "read", Use.WRITE: "write", Use.ATOMIC: "atomic"}


@dataclass(frozen=True)
class Cells:
    """The tags of one kind of memory: their width. An allocation of n bytes has three arrays of n tags (last writer,
    last reader, another reader), then two of n / 4 u32: the records of the last write and read of each dword."""

    name: str
    bits: int

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def total(self) -> int:
        """Bytes of all arrays for each byte of memory."""
        return 3 * self.bytes + 2

    @property
    def plain(self) -> int:
        """Mask of a tag without the top bit, which marks atomic writes."""
        return (1 << (self.bits - 1)) - 1

    def array(self, index: int) -> int:
        """Where an array starts (0 writer, 1 reader, 2 other reader, 3 and 4 records), for each byte of memory."""
        return index * self.bytes if index < 3 else 3 * self.bytes + index - 3


GLOBAL, LDS = Cells("global", 32), Cells("lds", 8)


def race_helper(cells: Cells, use: int, bytes: int) -> str:
    """The name of the function for a kind of memory, a use and a size."""
    return f"race_{cells.name}_{_NAMES[use]}_{bytes}"


def _splat(name: str, scalar: str, type: str, n: int) -> str:
    return (
        f"  %{name}_first = insertelement <{n} x {type}> poison, {type} {scalar}, i64 0\n"
        f"  %{name} = shufflevector <{n} x {type}> %{name}_first, <{n} x {type}> poison, <{n} x i32> zeroinitializer\n"
    )


def _array_place(cells: Cells, name: str, index: int) -> str:
    """%NAME_at: the tag of the byte at %offset in an array."""
    return (
        f"  %{name}_array = mul i64 %count, {cells.array(index)}\n"
        f"  %{name}_start = add i64 %cells, %{name}_array\n"
        f"  %{name}_place = add i64 %{name}_start, %tag_offset\n"
        f"  %{name}_at = inttoptr i64 %{name}_place to ptr\n"
    )


def _unordered(cells: Cells, tag: str, name: str, v: str) -> str:
    """%NAME: which tags are of accesses that are not ordered before this one."""
    truth = v.replace(cells.type, "i1")
    text = f"  %{name}_own = icmp eq {v} {tag}, %turn\n  %{name}_unused = icmp eq {v} {tag}, zeroinitializer\n"
    text += f"  %{name}_a = or {truth} %{name}_own, %{name}_unused\n"
    ordered = f"%{name}_a"
    if cells is GLOBAL:
        text += (
            f"  %{name}_age = sub {v} {tag}, %group_start\n"
            f"  %{name}_earlier = icmp ult {v} %{name}_age, %ordered_span\n"
            f"  %{name}_b = or {truth} %{name}_a, %{name}_earlier\n"
        )
        ordered = f"%{name}_b"
    return text + f"  %{name} = xor {truth} {ordered}, splat (i1 true)\n"


def _turns(cells: Cells, n: int) -> str:
    """%turn: this access's tag; of global memory also %group_start and %ordered_span: the turns of this workgroup
    before the last barrier."""
    text = field("context", state.TURN, "turn64") + field("context", state.ROUND_START, "round64")
    if cells is LDS:
        return text + (
            "  %position = sub i64 %turn64, %round64\n"
            "  %position1 = add i64 %position, 1\n"
            "  %tag_scalar = trunc i64 %position1 to i8\n"
        ) + _splat("turn", "%tag_scalar", "i8", n)  # fmt: skip
    text += field("context", state.GROUP_START, "group64")
    text += (
        "  %span64 = sub i64 %round64, %group64\n"
        "  %tag_scalar = trunc i64 %turn64 to i32\n"
        "  %group32 = trunc i64 %group64 to i32\n"
        "  %span32 = trunc i64 %span64 to i32\n"
    )
    scalars = {"turn": "%tag_scalar", "group_start": "%group32", "ordered_span": "%span32"}
    return text + "".join(_splat(name, scalar, "i32", n) for name, scalar in scalars.items())


def _record_number() -> str:
    return field("context", state.RECORDS, "records") + (
        "  %record_bits = ptrtoint ptr %record to i64\n"
        "  %distance = sub i64 %record_bits, %records\n"
        f"  %number = udiv i64 %distance, {state.RECORD_BYTES}\n"
        "  %number32 = trunc i64 %number to i32\n"
    )


def _store_record(cells: Cells, index: int, n: int) -> str:
    dwords = max(1, n // 4)
    return (
        f"  %history_array = mul i64 %count, {cells.array(index)}\n"
        f"  %history_start = add i64 %cells, %history_array\n"
        f"  %dword_offset = and i64 %offset, -4\n"
        f"  %history_place = add i64 %history_start, %dword_offset\n"
        f"  %history_at = inttoptr i64 %history_place to ptr\n"
        + _splat("numbers", "%number32", "i32", dwords)
        + f"  store <{dwords} x i32> %numbers, ptr %history_at, align 4\n"
    )


def _conflict(cells: Cells, use: int, n: int) -> str:
    """%conflict: bytes of this access that conflict with an earlier one."""
    v, truth = f"<{n} x {cells.type}>", f"<{n} x i1>"
    text = _array_place(cells, "writer", 0) + f"  %writer = load {v}, ptr %writer_at, align 1\n"
    text += f"  %writer_turn = and {v} %writer, splat ({cells.type} {cells.plain})\n"
    text += _unordered(cells, "%writer_turn", "after_write", v)
    plain = (
        f"icmp sge {v} %writer, zeroinitializer" if use == Use.ATOMIC else f"or {truth} splat (i1 true), %after_write"
    )
    text += f"  %counts = {plain}\n  %conflict_write = and {truth} %after_write, %counts\n"
    text += _array_place(cells, "reader", 1) + f"  %reader = load {v}, ptr %reader_at, align 1\n"
    if use == Use.READ:
        return text + f"  %conflict = or {truth} %conflict_write, zeroinitializer\n"
    text += _array_place(cells, "other", 2) + f"  %other = load {v}, ptr %other_at, align 1\n"
    text += _unordered(cells, "%reader", "after_read", v) + _unordered(cells, "%other", "after_other", v)
    return text + (
        f"  %after_any = or {truth} %after_read, %after_other\n  %conflict = or {truth} %conflict_write, %after_any\n"
    )


def _note_read(cells: Cells, n: int) -> str:
    """Enter a read, unless this turn has read the bytes already."""
    v, truth = f"<{n} x {cells.type}>", f"<{n} x i1>"
    lasting = f"  %lasting = and {truth} zeroinitializer, %noted\n"
    if cells is GLOBAL:
        lasting = (
            f"  %other_used = icmp ne {v} %other, zeroinitializer\n"
            f"  %other_before = icmp ult {v} %other, %group_start\n"
            f"  %lasting = and {truth} %other_used, %other_before\n"
        )
    return f"""  %unnoted = icmp ne {v} %reader, %turn
  %unnoted_bits = bitcast {truth} %unnoted to i{n}
  %all_noted = icmp eq i{n} %unnoted_bits, 0
  br i1 %all_noted, label %next, label %remember
remember:
{_array_place(cells, "other", 2)}  %other = load {v}, ptr %other_at, align 1
  %noted = xor {truth} %unnoted, splat (i1 true)
{lasting}  %reader_unused = icmp eq {v} %reader, zeroinitializer
  %keep_a = or {truth} %lasting, %reader_unused
  %keep = or {truth} %keep_a, %noted
  %other_new = select {truth} %keep, {v} %other, {v} %reader
  store {v} %other_new, ptr %other_at, align 1
  store {v} %turn, ptr %reader_at, align 1
{_store_record(cells, 4, n)}  br label %next
"""


def _note_write(cells: Cells, use: int, n: int) -> str:
    v = f"<{n} x {cells.type}>"
    mark = 1 << (cells.bits - 1) if use == Use.ATOMIC else 0
    return (
        f"  %write_tag = or {v} %turn, splat ({cells.type} {mark})\n  store {v} %write_tag, ptr %writer_at, align 1\n"
        + _store_record(cells, 3, n)
        + "  br label %next\n"
    )


def _race_function(cells: Cells, use: int, n: int) -> str:
    body = f"""  %tag_offset = mul i64 %offset, {cells.bytes}
{_conflict(cells, use, n)}
  %conflict_bits = bitcast <{n} x i1> %conflict to i{n}
  %peaceful = icmp eq i{n} %conflict_bits, 0
  br i1 %peaceful, label %update, label %report
report:
  call void @report_race_{cells.name}(ptr %wave, ptr %record, i64 %lane, i64 %address, i64 %cells, i64 %count,
                                      i64 %offset, i64 {n}, i64 {use})
  br label %update
update:
{_note_read(cells, n) if use == Use.READ else _note_write(cells, use, n)}"""
    before = _turns(cells, n) + _record_number()
    name = race_helper(cells, use, n)
    if cells is LDS:
        return lds_loop(name, body, before + field("context", state.LDS_CELLS, "cells"))
    watch = f"""{field("row", layout.CELLS, "cells")}{field("row", layout.CELL_COUNT, "count")}
  %unwatched = icmp eq i64 %cells, 0
  br i1 %unwatched, label %next, label %watch
watch:
{body}"""
    ends = ["known", "update", "remember"] if use == Use.READ else ["known", "update"]
    return close_lane_loop(lane_loop(name, watch, before), ends)


def _report_function(cells: Cells) -> str:
    """Finds the first byte of a lane's access that conflicts, and with which access, and notes a finding."""
    tags = "".join(
        _array_place(cells, name, index) + f"  %{name} = load {cells.type}, ptr %{name}_at, align 1\n"
        for index, name in enumerate(("writer", "reader", "other"))
    )
    one = f"<1 x {cells.type}>"
    vectors = "".join(
        f"  %{name}_v = bitcast {cells.type} %{name} to {one}\n" for name in ("writer_turn", "reader", "other")
    )
    unordered = "".join(
        _unordered(cells, f"%{tag}_v", f"{name}_v", one) + f"  %{name} = extractelement <1 x i1> %{name}_v, i64 0\n"
        for tag, name in (("writer_turn", "after_write"), ("reader", "after_read"), ("other", "after_other"))
    )
    base = "sub i64 %round64, 1" if cells is LDS else "add i64 0, 0"
    return f"""
define internal void @report_race_{cells.name}(ptr %wave, ptr %record, i64 %lane, i64 %address, i64 %cells, i64 %count,
                                               i64 %start, i64 %bytes, i64 %use) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{_turns(cells, 1)}
  %base = {base}
  %reads = icmp eq i64 %use, {Use.READ}
  %not_atomic = icmp ne i64 %use, {Use.ATOMIC}
  %lane_bit = shl i64 1, %lane
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k_next, %next ]
  %at_end = icmp uge i64 %k, %bytes
  br i1 %at_end, label %done, label %byte
byte:
  %offset = add i64 %start, %k
  %tag_offset = mul i64 %offset, {cells.bytes}
  %dword_offset = and i64 %offset, -4
  %byte_address = add i64 %address, %k
{tags}  %writer_turn = and {cells.type} %writer, {cells.plain}
{vectors}{unordered}
  %plain_write = icmp sge {cells.type} %writer, 0
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
  %writers_array = mul i64 %count, {cells.array(3)}
  %write_tag = zext {cells.type} %writer_turn to i64
  br label %found
read:
  %readers_array = mul i64 %count, {cells.array(4)}
  %chosen = select i1 %after_read, {cells.type} %reader, {cells.type} %other
  %read_tag = zext {cells.type} %chosen to i64
  br label %found
found:
  %array = phi i64 [ %writers_array, %write ], [ %readers_array, %read ]
  %tag = phi i64 [ %write_tag, %write ], [ %read_tag, %read ]
  %kind = phi i64 [ {Kind.RACE_WITH_WRITE}, %write ], [ {Kind.RACE_WITH_READ}, %read ]
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
    """All functions of the race check by name."""
    texts = {race_helper(m, use, n): _race_function(m, use, n) for m in (GLOBAL, LDS) for use in _NAMES for n in SIZES}
    return texts | {f"report_race_{m.name}": _report_function(m) for m in (GLOBAL, LDS)}
