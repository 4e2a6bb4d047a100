"""What the race check of memory knows by flags, where workgroups wait for each other (`sim/interleaving.py`).

Each workgroup has a range of turns of its own, and a row of numbers: of every workgroup the last turn that it knows of.
An atomic access that finds what another workgroup wrote orders all that this one did up to that turn, and all that it
knew of, before what follows. Where the write is a plain one, that is a finding at the flag itself, and what the flag
orders is not reported once more for each access. It is not checked that fences stand around flags.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.ir_text import field

ATOMIC_WRITER = 1 << 31
"""Of the turn of a writer in a history."""
HISTORY_TYPE = "<8 x i32>"

LEARN_OF_FLAG = f"""
; Add to what this workgroup knows by flags what the atomic write of a turn tells.
define internal void @learn_of_flag(ptr %context, i32 %writer) #1 {{
entry:
{field("context", state.KNOWN_FLAGS, "known_bits")}{field("context", state.TURN_SPAN, "span")}
{field("context", state.FLAG_GROUPS, "groups")}{field("context", state.TURN, "now")}
  %is_known = icmp ne i64 %known_bits, 0
  %is_atomic = icmp slt i32 %writer, 0
  %may_tell = and i1 %is_known, %is_atomic
  br i1 %may_tell, label %look, label %done
look:
  %known = inttoptr i64 %known_bits to ptr
  %turn = and i32 %writer, {ATOMIC_WRITER - 1}
  %turn64 = zext i32 %turn to i64
  %slot = udiv i64 %turn64, %span
  %own = udiv i64 %now, %span
  %at = getelementptr i32, ptr %known, i64 %slot
  %before = load i32, ptr %at, align 4
  %is_news = icmp ugt i32 %turn, %before
  %from_other = icmp ne i64 %slot, %own
  %tells = and i1 %is_news, %from_other
  br i1 %tells, label %learn, label %done
learn:
  store i32 %turn, ptr %at, align 4
  %ahead = sub i64 %slot, %own
  %distance = mul i64 %ahead, %groups
  %other = getelementptr i32, ptr %known, i64 %distance
  br label %each
each:
  %index = phi i64 [ 0, %learn ], [ %next, %each ]
  %mine_at = getelementptr i32, ptr %known, i64 %index
  %theirs_at = getelementptr i32, ptr %other, i64 %index
  %mine = load i32, ptr %mine_at, align 4
  %theirs = load i32, ptr %theirs_at, align 4
  %newer = icmp ugt i32 %theirs, %mine
  %latest = select i1 %newer, i32 %theirs, i32 %mine
  store i32 %latest, ptr %mine_at, align 4
  %next = add i64 %index, 1
  %more = icmp ult i64 %next, %groups
  br i1 %more, label %each, label %done
done:
  ret void
}}
"""

UNORDERED_BY_FLAGS = f"""
; Of conflicts (positions of a history) those that no flag orders.
define internal i8 @unordered_by_flags(ptr %context, {HISTORY_TYPE} %turns, i8 %conflict) #1 {{
entry:
{field("context", state.KNOWN_FLAGS, "known_bits")}{field("context", state.TURN_SPAN, "span")}
  %is_known = icmp ne i64 %known_bits, 0
  br i1 %is_known, label %head, label %all
all:
  ret i8 %conflict
head:
  %left = phi i8 [ %conflict, %entry ], [ %rest, %body ]
  %kept = phi i8 [ 0, %entry ], [ %kept_next, %body ]
  %none = icmp eq i8 %left, 0
  br i1 %none, label %done, label %body
body:
  %wide = zext i8 %left to i64
  %which = call i64 @llvm.cttz.i64(i64 %wide, i1 true)
  %less = add i8 %left, -1
  %rest = and i8 %left, %less
  %bit = xor i8 %left, %rest
  %turn = extractelement {HISTORY_TYPE} %turns, i64 %which
  %turn64 = zext i32 %turn to i64
  %slot = udiv i64 %turn64, %span
  %known = inttoptr i64 %known_bits to ptr
  %at = getelementptr i32, ptr %known, i64 %slot
  %until = load i32, ptr %at, align 4
  %is_ordered = icmp ule i32 %turn, %until
  %added = select i1 %is_ordered, i8 0, i8 %bit
  %kept_next = or i8 %kept, %added
  br label %head
done:
  ret i8 %kept
}}
"""
