"""The compiled side of findings: a function that notes one in the launch's buffer, and loops over the lanes of an
access that know each lane's allocation. IR text, called by name from checked handlers."""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.checks import layout
from ckmlir.sim.ir_text import allocation_of, each_lane, field


def _stores(values: dict[int, str]) -> str:
    return "".join(
        f"  %place{offset} = getelementptr i8, ptr %row, i64 {offset}\n"
        f"  store i64 {value}, ptr %place{offset}, align 8\n"
        for offset, value in values.items()
    )


# One row for each kind at each instruction (and, of some kinds, for each other instruction): seeing it again counts,
# and adds lanes while it is the same wave's turn.
NOTE_FINDING = f"""
define internal void @note_finding(ptr %wave, ptr %record, i64 %kind, i64 %lanes, i64 %address, i64 %tag,
                                   i64 %other) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{field("context", state.FINDINGS, "findings", "ptr")}
{field("context", state.FINDING_COUNT, "count")}{field("context", state.FINDING_CAPACITY, "capacity")}
{field("wave", state.WAVE_NUMBER, "number32", "i32")}  %number = zext i32 %number32 to i64
{field("context", state.CURRENT_GROUP, "group")}{field("context", state.TURN, "turn")}
{field("context", state.ROUND, "round")}{field("context", state.ROUND_START, "round_start")}
  %record_bits = ptrtoint ptr %record to i64
  %active = call i64 @llvm.ctpop.i64(i64 %lanes)
  %seen = call i64 @llvm.umax.i64(i64 %active, i64 1)
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k_next, %next ]
  %searched = icmp uge i64 %k, %count
  %old_offset = mul i64 %k, {layout.FINDING_BYTES}
  %old = getelementptr i8, ptr %findings, i64 %old_offset
  br i1 %searched, label %new, label %compare
compare:
{field("old", layout.KIND, "old_kind")}{field("old", layout.RECORD, "old_record")}
{field("old", layout.OTHER_RECORD, "old_other")}  %same_kind = icmp eq i64 %old_kind, %kind
  %same_record = icmp eq i64 %old_record, %record_bits
  %same_other = icmp eq i64 %old_other, %other
  %any_other = icmp ult i64 %kind, {layout.FIRST_OF_PAIRS}
  %other_fits = or i1 %same_other, %any_other
  %same_place = and i1 %same_kind, %same_record
  %same = and i1 %same_place, %other_fits
  br i1 %same, label %again, label %next
next:
  %k_next = add i64 %k, 1
  br label %head
again:
{field("old", layout.TIMES, "times")}  %more = add i64 %times, %seen
  store i64 %more, ptr %times_at, align 8
{field("old", layout.WAVE, "old_wave")}{field("old", layout.GROUP, "old_group")}{
    field("old", layout.LANES, "old_lanes")
}
  %same_wave = icmp eq i64 %old_wave, %number
  %same_group = icmp eq i64 %old_group, %group
  %together = and i1 %same_wave, %same_group
  %joined = or i64 %old_lanes, %lanes
  %kept = select i1 %together, i64 %joined, i64 %old_lanes
  store i64 %kept, ptr %old_lanes_at, align 8
  ret void
new:
  %full = icmp uge i64 %count, %capacity
  br i1 %full, label %lose, label %add
lose:
{field("context", state.FINDINGS_LOST, "lost")}  %lost_more = add i64 %lost, 1
  store i64 %lost_more, ptr %lost_at, align 8
  ret void
add:
  %row_offset = mul i64 %count, {layout.FINDING_BYTES}
  %row = getelementptr i8, ptr %findings, i64 %row_offset
{
    _stores(
        {
            layout.KIND: "%kind",
            layout.RECORD: "%record_bits",
            layout.WAVE: "%number",
            layout.GROUP: "%group",
            layout.LANES: "%lanes",
            layout.ADDRESS: "%address",
            layout.OTHER_TAG: "%tag",
            layout.OTHER_RECORD: "%other",
            layout.TIMES: "%seen",
            layout.ROUND_OF: "%round",
            layout.ROUND_START_OF: "%round_start",
        }
    )
}
  %count_next = add i64 %count, 1
  store i64 %count_next, ptr %count_at, align 8
  ret void
}}
"""

_REMEMBERED = """  %first = phi i64 [ 0, %entry ], [ %first_next, %next ]
  %size = phi i64 [ 0, %entry ], [ %size_next, %next ]
  %row_here = phi ptr [ %attributes, %entry ], [ %row_next, %next ]
"""
"""The allocation of the lane before, where most lanes' addresses are too."""

# Note the lanes of a mask that write to a read-only allocation.
CHECK_READ_ONLY = f"""
define internal void @check_read_only(i64 %mask, ptr %addresses, ptr %wave, ptr %record) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{field("context", state.ALLOCATIONS, "table", "ptr")}
{field("context", state.ALLOCATION_ATTRIBUTES, "attributes", "ptr")}
  br label %head
{each_lane(phis=_REMEMBERED)}  %offset_here = sub i64 %address, %first
  %same = icmp ult i64 %offset_here, %size
  br i1 %same, label %known, label %search
search:
{allocation_of("found", "address")}  %found_offset = sub i64 %address, %found_first
  %inside = icmp ult i64 %found_offset, %found_size
  br i1 %inside, label %known, label %next
known:
  %first_known = phi i64 [ %first, %body ], [ %found_first, %search ]
  %size_known = phi i64 [ %size, %body ], [ %found_size, %search ]
  %row = phi ptr [ %row_here, %body ], [ %found_row, %search ]
{field("row", layout.PROPERTIES, "properties")}  %protected = and i64 %properties, {layout.READ_ONLY}
  %allowed = icmp eq i64 %protected, 0
  br i1 %allowed, label %next, label %refuse
refuse:
  %bit = shl i64 1, %lane
  call void @note_finding(ptr %wave, ptr %record, i64 {layout.Kind.READ_ONLY}, i64 %bit, i64 %address, i64 0, i64 0)
  br label %next
next:
  %first_next = phi i64 [ %first, %search ], [ %first_known, %known ], [ %first_known, %refuse ]
  %size_next = phi i64 [ %size, %search ], [ %size_known, %known ], [ %size_known, %refuse ]
  %row_next = phi ptr [ %row_here, %search ], [ %row, %known ], [ %row, %refuse ]
  br label %head
done:
  ret void
}}
"""


def lds_loop(name: str, body: str, before: str = "") -> str:
    """A function over the lanes of a mask that runs `body` where the lane's address lies in LDS. The body sees
    %address, %lane, %offset (in LDS) and %count (bytes of LDS), and ends in `br label %next`."""
    return f"""
define internal void @{name}(i64 %mask, ptr %addresses, ptr %wave, ptr %record) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{field("context", state.LDS_BASE, "first")}
{field("context", state.LDS_SIZE, "size")}
  %rounded = add i64 %size, 63
  %count = and i64 %rounded, -64
{before}  br label %head
{each_lane()}  %offset = sub i64 %address, %first
  %inside = icmp ult i64 %offset, %size
  br i1 %inside, label %known, label %next
known:
{body}
next:
  br label %head
done:
  ret void
}}
"""
