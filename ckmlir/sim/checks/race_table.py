"""The race check's histories of memory: lines of bytes, and groups of bytes with one history.

Neighbours mostly have one history. So memory is seen in lines of 64 bytes, and a line is a list of groups: a history,
and a mask of the bytes that have it. Bytes that nobody touched are in no group. The first group of each line is in an
array of its allocation, others come from a table; pages of either cost memory only when they are touched. A line that
is accessed as a whole takes GROUP_BYTES, one whose bytes all differ 64 times that.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

from ckmlir.sim import state
from ckmlir.sim.ir_text import field

LINE = 64
"""Bytes of a line: as many as a mask has bits."""

# A group: u64 mask, then eight u32. Number 0 stands for none; in its place are three u64 of the table.
MASK, HISTORY, NEXT = 0, 8, 36
COUNT, CAPACITY, LOST = 0, 8, 16  # groups in use, this one included; how many fit; how many did not
GROUP_BYTES = 40
_LAST = 7  # of the eight: the number of the line's next group, which is not a part of the history


class LineTable:
    """The lines of the allocations of a launch, and the table of further groups, as large as it can ever become."""

    def __init__(self) -> None:
        self._lines: list[npt.NDArray[np.uint8]] = []
        self._most = 1
        self._groups = np.zeros(GROUP_BYTES // 8, np.uint64)

    def add(self, size: int) -> int:
        """Lines for an allocation of this many bytes; returns the address of the first one's group."""
        count = size // LINE + 2  # accesses may end in a line more
        lines = np.zeros(count * GROUP_BYTES, np.uint8)  # untouched pages cost nothing
        self._lines.append(lines)
        self._most += (LINE - 1) * count
        return int(lines.ctypes.data)

    def context_fields(self) -> dict[int, int]:
        """What the launch's context has to hold; makes the table."""
        if not self._lines:
            return {}
        capacity, reserved = min(self._most, 1 << 32), None
        while reserved is None:
            try:
                reserved = _reserved(capacity * GROUP_BYTES)
            except OSError:  # the process may not reserve that much
                capacity //= 2
        self._groups = np.frombuffer(reserved, np.uint64)
        self._groups[:2] = 1, capacity
        return {state.RACE_GROUPS: int(self._groups.ctypes.data)}

    @property
    def groups(self) -> int:
        """Groups in use beside the first of each line."""
        return int(self._groups[COUNT // 8]) - 1

    def missing(self) -> str:
        """What the check had no room for, empty if nothing."""
        if not self._groups[LOST // 8]:
            return ""
        return (
            f"the race check needs more than the {self._groups[CAPACITY // 8]} histories that the system gave it "
            "address space for; raise the limit of address space (ulimit -v), or run without the check"
        )


def _reserved(size: int) -> mmap.mmap:
    """Zeroed address space, of which only pages that are touched take memory."""
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux; Python names it from 3.13 on
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)


def group_at(name: str, number: str) -> str:
    """IR for a pointer to a group of the table."""
    return (
        f"  %{name}_number = zext i32 {number} to i64\n"
        f"  %{name}_offset = mul i64 %{name}_number, {GROUP_BYTES}\n"
        f"  %{name} = getelementptr i8, ptr %groups, i64 %{name}_offset\n"
    )


# Give bytes of a line, which are in no group, a history: join the group that has it, else make one.
PUT = f"""
define internal void @race_put(ptr %line, i64 %bytes, <8 x i32> %history, ptr %context) #1 {{
entry:
{field("context", state.RACE_GROUPS, "groups", "ptr")}  br label %head
head:
  %group = phi ptr [ %line, %entry ], [ %following, %follow ]
  %free = phi ptr [ null, %entry ], [ %free_next, %follow ]
{field("group", MASK, "mask")}  %old_at = getelementptr i8, ptr %group, i64 {HISTORY}
  %old = load <8 x i32>, ptr %old_at, align 4
  %differs = icmp ne <8 x i32> %old, %history
  %differs_bits = bitcast <8 x i1> %differs to i8
  %differs_in = and i8 %differs_bits, {(1 << _LAST) - 1}
  %equal = icmp eq i8 %differs_in, 0
  %used = icmp ne i64 %mask, 0
  %joins = and i1 %equal, %used
  br i1 %joins, label %join, label %other
join:
  %more = or i64 %mask, %bytes
  store i64 %more, ptr %mask_at, align 8
  ret void
other:
  %seen_free = icmp ne ptr %free, null
  %passed = or i1 %used, %seen_free
  %free_next = select i1 %passed, ptr %free, ptr %group
{field("group", NEXT, "next", "i32")}  %last = icmp eq i32 %next, 0
  br i1 %last, label %end, label %follow
follow:
{group_at("following", "%next")}  br label %head
end:
  %has_free = icmp ne ptr %free_next, null
  br i1 %has_free, label %fill, label %add
fill:
{field("free_next", NEXT, "kept", "i32")}  br label %write
add:
{field("groups", COUNT, "count")}{field("groups", CAPACITY, "capacity")}
  %full = icmp uge i64 %count, %capacity
  br i1 %full, label %lose, label %make
lose:
{field("groups", LOST, "lost")}  %lost_more = add i64 %lost, 1
  store i64 %lost_more, ptr %lost_at, align 8
  ret void
make:
  %count_more = add i64 %count, 1
  store i64 %count_more, ptr %count_at, align 8
  %made32 = trunc i64 %count to i32
{group_at("made", "%made32")}{field("line", NEXT, "second", "i32")}
  store i32 %made32, ptr %second_at, align 4
  br label %write
write:
  %place = phi ptr [ %free_next, %fill ], [ %made, %make ]
  %behind = phi i32 [ %kept, %fill ], [ %second, %make ]
  %whole = insertelement <8 x i32> %history, i32 %behind, i64 {_LAST}
  store i64 %bytes, ptr %place, align 8
  %place_at = getelementptr i8, ptr %place, i64 {HISTORY}
  store <8 x i32> %whole, ptr %place_at, align 4
  ret void
}}
"""
