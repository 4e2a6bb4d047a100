"""The race check of memory that workgroups share: who accessed which byte last.

Atomic are updates, and loads and stores as far as their bits tell (`variants.py`).

A turn is one wave's run from barrier to barrier; turns are numbered from 1 in the order in which they are simulated.
Two accesses are ordered when they are in one turn, or in one workgroup with a barrier between. An access conflicts with
an earlier one that is not ordered before it if one of the two writes and not both are atomic.

The history of a byte is the turn of its last writer; of its last reader and of one more: one from an earlier workgroup
if there is any (nothing orders it before this workgroup), else the last one of another turn; the same two of atomic
readers, which do not conflict with atomic writes; and the records of the last write and of the last read, if possible a
plain one. That is enough to find a conflict whenever there is one, but for atomic writes, of which only the last is
kept.

`race_table.py` keeps one history for all neighbours that have the same.

Where workgroups wait for each other, flags order accesses too: `race_flags.py`. Elsewhere what atomic accesses order is
a finding of its own kind. An atomic update orders nothing at its own place: who reads a counter plainly behind its
update races with the next one's.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.checks import layout
from ckmlir.sim.checks.layout import Kind, Use
from ckmlir.sim.checks.race_flags import ATOMIC_WRITER as _ATOMIC_WRITER
from ckmlir.sim.checks.race_flags import LEARN_OF_FLAG, UNORDERED_BY_FLAGS
from ckmlir.sim.checks.race_table import GROUP_BYTES, HISTORY, LINE, MASK, NEXT, PUT, group_at
from ckmlir.sim.ir_text import allocation_of, each_lane, field

_WRITER, _READER, _ATOMIC_READER, _WRITE_RECORD, _READ_RECORD = 0, 1, 3, 5, 6  # positions in a history
_PLAIN_USE, _ATOMIC_USE = 0b11111, 0b00111  # positions whose turns conflict with a write
_H = "<8 x i32>"

_WRITES = (Use.WRITE, Use.ATOMIC, Use.SAME, Use.ATOMIC_WRITE)
_ATOMIC = (Use.ATOMIC, Use.ATOMIC_READ, Use.ATOMIC_WRITE)
_NAMES = {
    Use.READ: "read", Use.WRITE: "write", Use.ATOMIC: "atomic", Use.ATOMIC_READ: "atomic_read", Use.SAME: "same",
    Use.ATOMIC_WRITE: "atomic_write",
}  # fmt: skip
_CONFLICTS = {
    Use.READ: 1, Use.ATOMIC_READ: 1, Use.WRITE: _PLAIN_USE, Use.ATOMIC: _ATOMIC_USE, Use.SAME: _PLAIN_USE,
    Use.ATOMIC_WRITE: _ATOMIC_USE,
}  # fmt: skip


def memory_helper(use: int) -> str:
    """The name of the function for a use; it takes the bytes of a lane, at most 16, as its last argument."""
    return f"race_memory_{_NAMES[use]}"


def _splat(name: str, scalar: str) -> str:
    return (
        f"  %{name}_first = insertelement {_H} poison, i32 {scalar}, i64 0\n"
        f"  %{name}_v = shufflevector {_H} %{name}_first, {_H} poison, <8 x i32> zeroinitializer\n"
    )


_REPORTED = "  %found = phi i64 [ 0, %entry ], [ %found_next, %next ]\n"

# Note a finding of each of the lanes whose access touches bytes %here of the line at address %start, whose history
# conflicts with it in the positions %conflict; returns those lanes.
_REPORT = f"""
define internal i64 @report_race(ptr %wave, ptr %record, {_H} %old, i8 %conflict, i64 %here, i64 %lanes, i64 %start,
                                 i64 %size, ptr %addresses, i64 %write_kind, i64 %read_kind, i1 %is_atomic) #1 {{
entry:
  %conflict64 = zext i8 %conflict to i64
  %which = call i64 @llvm.cttz.i64(i64 %conflict64, i1 true)
  %of_write = icmp eq i64 %which, {_WRITER}
  %kind_of_two = select i1 %of_write, i64 %write_kind, i64 %read_kind
  %writer = extractelement {_H} %old, i64 {_WRITER}
  %atomic_writer = icmp slt i32 %writer, 0
  %atomic_write = and i1 %of_write, %atomic_writer
  %atomic_read = icmp uge i64 %which, {_ATOMIC_READER}
  %other_is_atomic = or i1 %atomic_write, %atomic_read
  %one_is_atomic = or i1 %is_atomic, %other_is_atomic
  %is_conflict = icmp ule i64 %kind_of_two, {Kind.RACE_WITH_READ}
  %of_atomic = and i1 %one_is_atomic, %is_conflict
  %kind_of_atomic = add i64 %kind_of_two, {layout.OF_ATOMIC}
  %kind = select i1 %of_atomic, i64 %kind_of_atomic, i64 %kind_of_two
  %turns = and {_H} %old, splat (i32 {_ATOMIC_WRITER - 1})
  %turn32 = extractelement {_H} %turns, i64 %which
  %turn = zext i32 %turn32 to i64
  %write_record = extractelement {_H} %old, i64 {_WRITE_RECORD}
  %read_record = extractelement {_H} %old, i64 {_READ_RECORD}
  %other32 = select i1 %of_write, i32 %write_record, i32 %read_record
  %other = zext i32 %other32 to i64
  %bit_behind = shl i64 1, %size
  %ones = add i64 %bit_behind, -1
  br label %head
{each_lane(phis=_REPORTED, mask="lanes")}  %distance = sub i64 %address, %start
  %behind = sub i64 0, %distance
  %starts_here = icmp sge i64 %distance, 0
  %up = and i64 %distance, 63
  %down = and i64 %behind, 63
  %from_here = shl i64 %ones, %up
  %from_before = lshr i64 %ones, %down
  %touched = select i1 %starts_here, i64 %from_here, i64 %from_before
  %hit = and i64 %touched, %here
  %misses = icmp eq i64 %hit, 0
  %bit = shl i64 1, %lane
  br i1 %misses, label %next, label %note
note:
  %byte = call i64 @llvm.cttz.i64(i64 %hit, i1 true)
  %byte_address = add i64 %start, %byte
  call void @note_finding(ptr %wave, ptr %record, i64 %kind, i64 %bit, i64 %byte_address, i64 %turn, i64 %other)
  %found_more = or i64 %found, %bit
  br label %next
next:
  %found_next = phi i64 [ %found, %body ], [ %found_more, %note ]
  br label %head
done:
  ret i64 %found
}}
"""


def _conflict(use: int) -> str:
    """%conflict: positions of %old whose turns are of accesses that this one conflicts with."""
    text = f"""  %turns = and {_H} %old, splat (i32 {_ATOMIC_WRITER - 1})
  %own = icmp eq {_H} %turns, %turn_v
  %unused = icmp eq {_H} %turns, zeroinitializer
  %age = sub {_H} %turns, %group_start_v
  %earlier = icmp ult {_H} %age, %span_v
  %ordered_a = or <8 x i1> %own, %unused
  %ordered = or <8 x i1> %ordered_a, %earlier
  %ordered_bits = bitcast <8 x i1> %ordered to i8
  %unordered = xor i8 %ordered_bits, -1
"""
    if use not in _ATOMIC:
        return text + f"  %conflict = and i8 %unordered, {_CONFLICTS[use]}\n"
    return (
        text
        + f"""  %counted = and i8 %unordered, {_CONFLICTS[use]}
  %writer = extractelement {_H} %old, i64 {_WRITER}
  %writer_sign = lshr i32 %writer, 31
  %atomic_writer = trunc i32 %writer_sign to i8
  %forgiven = xor i8 %atomic_writer, -1
  %conflict = and i8 %counted, %forgiven
"""
    )


def _inserted(name: str, values: dict[int, str], old: str) -> str:
    """%NAME: a history with other values at some positions."""
    lines, current = "", old
    for step, (position, value) in enumerate(values.items()):
        target = f"%{name}" if step == len(values) - 1 else f"%{name}_{position}"
        lines += f"  {target} = insertelement {_H} {current}, i32 {value}, i64 {position}\n"
        current = target
    return lines


def _new_history(use: int) -> str:
    """%new: the history behind this access of bytes with history %old, and %fresh: of bytes without one."""
    if use in _WRITES:
        values = {_WRITER: "%write_turn", _WRITE_RECORD: "%number32"}
        return _inserted("new", values, "%old")
    first = _READER if use == Use.READ else _ATOMIC_READER
    named = "  %named = add i32 %number32, 0\n"
    if use == Use.ATOMIC_READ:  # the record is that of a plain read, where there is one
        named = (
            f"  %plain_reader = extractelement {_H} %old, i64 {_READER}\n"
            f"  %known_read = extractelement {_H} %old, i64 {_READ_RECORD}\n"
            "  %no_plain = icmp eq i32 %plain_reader, 0\n"
            "  %named = select i1 %no_plain, i32 %number32, i32 %known_read\n"
        )
    return f"""{named}  %reader = extractelement {_H} %old, i64 {first}
  %second = extractelement {_H} %old, i64 {first + 1}
  %noted = icmp eq i32 %reader, %turn
  %no_reader = icmp eq i32 %reader, 0
  %some_second = icmp ne i32 %second, 0
  %second_before = icmp ult i32 %second, %group_start
  %lasting = and i1 %some_second, %second_before
  %keep = or i1 %lasting, %no_reader
  %second_new = select i1 %keep, i32 %second, i32 %reader
{_inserted("read", {first: "%turn", first + 1: "%second_new", _READ_RECORD: "%named"}, "%old")}
  %new = select i1 %noted, {_H} %old, {_H} %read
"""


def _fresh_history(use: int) -> str:
    if use in _WRITES:
        values = {_WRITER: "%write_turn", _WRITE_RECORD: "%number32"}
    else:
        values = {_READER if use == Use.READ else _ATOMIC_READER: "%turn", _READ_RECORD: "%number32"}
    return _inserted("fresh_history", values, "zeroinitializer")


_LEARN = f"""  %flag_writer = extractelement {_H} %old, i64 {_WRITER}
  call void @learn_of_flag(ptr %context, i32 %flag_writer)
"""
_LEARN_BEHIND = f"""  %any_writer = or i32 %flag_writer, {_ATOMIC_WRITER}
  call void @learn_of_flag(ptr %context, i32 %any_writer)
"""


def _kind_of_write(use: int) -> int:
    """What a conflict of an access with an earlier write is."""
    return Kind.RACE_EQUAL if use == Use.SAME else Kind.RACE_WITH_WRITE


def _line_function(use: int) -> str:
    """Checks the access of %lanes to %bytes of the line that lies at address %start, and enters it."""
    return f"""
define internal void @race_line_{_NAMES[use]}(ptr %line, i64 %bytes, i64 %lanes, i64 %start, i64 %size, ptr %addresses,
                                              ptr %wave, ptr %record) #1 {{
entry:
  %nothing = icmp eq i64 %bytes, 0
  br i1 %nothing, label %done, label %begin
begin:
{field("wave", state.CONTEXT, "context", "ptr")}{field("context", state.RACE_GROUPS, "groups", "ptr")}
{field("context", state.TURN, "turn64")}{field("context", state.ROUND_START, "round64")}
{field("context", state.GROUP_START, "group64")}{field("context", state.RECORDS, "records")}
  %span64 = sub i64 %round64, %group64
  %turn = trunc i64 %turn64 to i32
  %group_start = trunc i64 %group64 to i32
  %span = trunc i64 %span64 to i32
  %write_turn = or i32 %turn, {_ATOMIC_WRITER if use in (Use.ATOMIC, Use.ATOMIC_WRITE) else 0}
{_splat("turn", "%turn")}{_splat("group_start", "%group_start")}{_splat("span", "%span")}
  %record_bits = ptrtoint ptr %record to i64
  %into_records = sub i64 %record_bits, %records
  %number = udiv i64 %into_records, {state.RECORD_BYTES}
  %number32 = trunc i64 %number to i32
  br label %head
head:
  %group = phi ptr [ %line, %begin ], [ %following, %follow ]
  %left = phi i64 [ %bytes, %begin ], [ %left_after, %follow ]
  %open = phi i64 [ %lanes, %begin ], [ %open_after, %follow ]
{field("group", MASK, "mask")}  %here = and i64 %mask, %left
  %apart = icmp eq i64 %here, 0
  br i1 %apart, label %step, label %look
look:
  %old_at = getelementptr i8, ptr %group, i64 {HISTORY}
  %old = load {_H}, ptr %old_at, align 4
{_LEARN if use in (Use.ATOMIC, Use.ATOMIC_READ) else ""}{_conflict(use)}  %peace = icmp eq i8 %conflict, 0
  br i1 %peace, label %update, label %report
report:
  %unordered_here = call i8 @unordered_by_flags(ptr %context, {_H} %turns, i8 %conflict)
  %excused = icmp eq i8 %unordered_here, 0
  br i1 %excused, label %flagged, label %tell
flagged:
{field("context", state.PAUSES, "pauses")}  %trusts_flags = icmp ne i64 %pauses, 0
  br i1 %trusts_flags, label %update, label %doubt
doubt:
  %last_writer = extractelement {_H} %old, i64 {_WRITER}
  %after_atomic = icmp slt i32 %last_writer, 0
  %is_flag = and i1 %after_atomic, {"true" if use == Use.ATOMIC else "false"}
  %doubted_write = select i1 %is_flag, i64 {_kind_of_write(use)}, i64 {Kind.RACE_ORDERED}
  %doubted_read = select i1 %is_flag, i64 {Kind.RACE_WITH_READ}, i64 {Kind.RACE_ORDERED}
  br label %tell
tell:
  %shown = phi i8 [ %unordered_here, %report ], [ %conflict, %doubt ]
  %write_kind = phi i64 [ {_kind_of_write(use)}, %report ], [ %doubted_write, %doubt ]
  %read_kind = phi i64 [ {Kind.RACE_WITH_READ}, %report ], [ %doubted_read, %doubt ]
  %told = call i64 @report_race(ptr %wave, ptr %record, {_H} %old, i8 %shown, i64 %here, i64 %open, i64 %start,
                                i64 %size, ptr %addresses, i64 %write_kind, i64 %read_kind,
                                i1 {"true" if use in _ATOMIC else "false"})
  %silent = xor i64 %told, -1
  %open_less = and i64 %open, %silent
  br label %update
update:
  %open_here = phi i64 [ %open, %look ], [ %open, %flagged ], [ %open_less, %tell ]
  %not_here = xor i64 %here, -1
  %left_here = and i64 %left, %not_here
{_LEARN_BEHIND if use in (Use.ATOMIC, Use.ATOMIC_READ) else ""}{_new_history(use)}  %differs = icmp ne {_H} %old, %new
  %differs_bits = bitcast <8 x i1> %differs to i8
  %same = icmp eq i8 %differs_bits, 0
  br i1 %same, label %step, label %change
change:
  %mask_less = and i64 %mask, %not_here
  store i64 %mask_less, ptr %mask_at, align 8
  call void @race_put(ptr %line, i64 %here, {_H} %new, ptr %context)
  br label %step
step:
  %left_after = phi i64 [ %left, %head ], [ %left_here, %update ], [ %left_here, %change ]
  %open_after = phi i64 [ %open, %head ], [ %open_here, %update ], [ %open_here, %change ]
  %all = icmp eq i64 %left_after, 0
  br i1 %all, label %done, label %more
more:
{field("group", NEXT, "next", "i32")}  %last = icmp eq i32 %next, 0
  br i1 %last, label %fresh, label %follow
follow:
{group_at("following", "%next")}  br label %head
fresh:
{_fresh_history(use)}  call void @race_put(ptr %line, i64 %left_after, {_H} %fresh_history, ptr %context)
  br label %done
done:
  ret void
}}
"""


_CARRIED = {"first": "i64", "allocated": "i64", "lines": "i64", "line": "ptr", "bytes": "i64", "lanes": "i64",
            "start": "i64"}  # fmt: skip
"""What the loop over lanes carries: the allocation of the lane before, and the bytes of a line that are collected."""


def _phis() -> str:
    return "".join(
        f"  %{name} = phi {type} [ {'null' if type == 'ptr' else 0}, %entry ], [ %{name}_next, %next ]\n"
        for name, type in _CARRIED.items()
    )


def _joined() -> str:
    """The carried values behind a lane, by the block it comes from."""
    unchanged = {name: f"%{name}" for name in _CARRIED}
    known = unchanged | {name: f"%{name}_known" for name in ("first", "allocated", "lines")}
    blocks = {
        "search": unchanged,
        "known": known,
        "join": known | {"bytes": "%bytes_more", "lanes": "%lanes_more"},
        "cross": known | {"line": "%line_behind", "bytes": "%high", "lanes": "%bit", "start": "%start_behind"},
        "restart": known | {"line": "%place", "bytes": "%low", "lanes": "%bit", "start": "%line_start"},
    }
    return "".join(
        f"  %{name}_next = phi {type} "
        + ", ".join(f"[ {values[name]}, %{block} ]" for block, values in blocks.items())
        + "\n"
        for name, type in _CARRIED.items()
    )


def _memory_function(use: int) -> str:
    """Goes over the lanes of a mask, collects the bytes of each line that neighbours touch, and checks line by line."""
    touch = f"call void @race_line_{_NAMES[use]}"
    rest = "i64 %size, ptr %addresses, ptr %wave, ptr %record)"
    return f"""
define internal void @{memory_helper(use)}(i64 %mask, ptr %addresses, ptr %wave, ptr %record, i64 %size) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{field("context", state.ALLOCATIONS, "table", "ptr")}
{field("context", state.ALLOCATION_ATTRIBUTES, "attributes", "ptr")}
  %bit_behind = shl i64 1, %size
  %ones = add i64 %bit_behind, -1
  br label %head
{each_lane(phis=_phis())}  %offset_here = sub i64 %address, %first
  %same = icmp ult i64 %offset_here, %allocated
  br i1 %same, label %known, label %search
search:
{allocation_of("found", "address")}  %found_offset = sub i64 %address, %found_first
  %inside = icmp ult i64 %found_offset, %found_size
  br i1 %inside, label %enter, label %next
enter:
{field("found_row", layout.LINES, "found_lines")}  br label %known
known:
  %offset = phi i64 [ %offset_here, %body ], [ %found_offset, %enter ]
  %first_known = phi i64 [ %first, %body ], [ %found_first, %enter ]
  %allocated_known = phi i64 [ %allocated, %body ], [ %found_size, %enter ]
  %lines_known = phi i64 [ %lines, %body ], [ %found_lines, %enter ]
  %unwatched = icmp eq i64 %lines_known, 0
  br i1 %unwatched, label %next, label %watch
watch:
  %number = udiv i64 %offset, {LINE}
  %byte = urem i64 %offset, {LINE}
  %distance = mul i64 %number, {GROUP_BYTES}
  %place_bits = add i64 %lines_known, %distance
  %place = inttoptr i64 %place_bits to ptr
  %low = shl i64 %ones, %byte
  %line_start = sub i64 %address, %byte
  %bit = shl i64 1, %lane
  %end = add i64 %byte, %size
  %crosses = icmp ugt i64 %end, {LINE}
  %near = icmp eq i64 %line_start, %start
  %ends_here = xor i1 %crosses, true
  %joins = and i1 %near, %ends_here
  br i1 %joins, label %join, label %change
join:
  %bytes_more = or i64 %bytes, %low
  %lanes_more = or i64 %lanes, %bit
  br label %next
change:
  {touch}(ptr %line, i64 %bytes, i64 %lanes, i64 %start, {rest}
  br i1 %crosses, label %cross, label %restart
cross:
  {touch}(ptr %place, i64 %low, i64 %bit, i64 %line_start, {rest}
  %in_line = sub i64 {LINE}, %byte
  %high = lshr i64 %ones, %in_line
  %line_behind = getelementptr i8, ptr %place, i64 {GROUP_BYTES}
  %start_behind = add i64 %line_start, {LINE}
  br label %next
restart:
  br label %next
next:
{_joined()}  br label %head
done:
  {touch}(ptr %line, i64 %bytes, i64 %lanes, i64 %start, {rest}
  ret void
}}
"""


def helpers() -> dict[str, str]:
    """All functions of this check by name."""
    texts = {"race_put": PUT, "report_race": _REPORT}
    texts |= {"learn_of_flag": LEARN_OF_FLAG, "unordered_by_flags": UNORDERED_BY_FLAGS}
    for use, name in _NAMES.items():
        texts |= {f"race_line_{name}": _line_function(use), memory_helper(use): _memory_function(use)}
    return texts
