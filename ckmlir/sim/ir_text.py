"""IR text that the functions called by handlers share: loading a field, the loop over the lanes of a mask, the search
for an address's allocation."""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.checks.layout import ATTRIBUTE_BYTES


def field(block: str, offset: int, name: str, type: str = "i64") -> str:
    """IR that loads a field at a byte offset of a block."""
    return (
        f"  %{name}_at = getelementptr i8, ptr %{block}, i64 {offset}\n"
        f"  %{name} = load {type}, ptr %{name}_at, align {4 if type == 'i32' else 8}\n"
    )


def each_lane(address: str | None = "address", phis: str = "", mask: str = "mask", again: str = "next") -> str:
    """The head of a loop over the lanes of %mask, from block %entry to block %done; what follows is its body, for lane
    %lane, and ends in block `again`, which goes to %head.

    Args:
        address: The name of the lane's address (an i64), loaded from %addresses; None loads none.
        phis: More values that the loop carries.
        mask: The name of the mask.
        again: The block at the end of the body.
    """
    loaded = "" if address is None else (
        f"  %slot = getelementptr i64, ptr %addresses, i64 %lane\n  %{address} = load i64, ptr %slot, align 8\n"
    )  # fmt: skip
    return f"""head:
  %left = phi i64 [ %{mask}, %entry ], [ %rest, %{again} ]
{phis}  %none = icmp eq i64 %left, 0
  br i1 %none, label %done, label %body
body:
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %less = add i64 %left, -1
  %rest = and i64 %left, %less
{loaded}"""


# The row of the table of allocations with the greatest first address that is not above the given one (row 0 if none).
FIND_ENTRY = f"""
define internal i64 @find_entry(i64 %address, ptr %context) #1 {{
entry:
{field("context", state.ALLOCATIONS, "table", "ptr")}{field("context", state.ALLOCATION_COUNT, "count")}
  br label %search
search:
  %low = phi i64 [ 0, %entry ], [ %new_low, %step ]
  %high = phi i64 [ %count, %entry ], [ %new_high, %step ]
  %width = sub i64 %high, %low
  %single = icmp ule i64 %width, 1
  br i1 %single, label %found, label %step
step:
  %half = lshr i64 %width, 1
  %middle = add i64 %low, %half
  %middle_entry = getelementptr [2 x i64], ptr %table, i64 %middle
  %middle_first = load i64, ptr %middle_entry, align 8
  %above = icmp uge i64 %address, %middle_first
  %new_low = select i1 %above, i64 %middle, i64 %low
  %new_high = select i1 %above, i64 %high, i64 %middle
  br label %search
found:
  ret i64 %low
}}
"""


def allocation_of(name: str, address: str) -> str:
    """IR that finds what the tables of a launch say of an address: %NAME_index, %NAME_entry (the row of %table),
    %NAME_first and %NAME_size of the allocation, and %NAME_row (its attributes, in %attributes)."""
    return f"""  %{name}_index = call i64 @find_entry(i64 %{address}, ptr %context)
  %{name}_entry = getelementptr [2 x i64], ptr %table, i64 %{name}_index
  %{name}_first = load i64, ptr %{name}_entry, align 8
  %{name}_size_at = getelementptr i64, ptr %{name}_entry, i64 1
  %{name}_size = load i64, ptr %{name}_size_at, align 8
  %{name}_row_offset = mul i64 %{name}_index, {ATTRIBUTE_BYTES}
  %{name}_row = getelementptr i8, ptr %attributes, i64 %{name}_row_offset
"""
