"""The compiled loop that runs workgroups: sets up the waves, lets each run to its next barrier, in an order that
varies, until all end.

A wave stops at a barrier, at its end, where it waits for another workgroup, or with an error; a round lets every
living wave run once. When all living waves have stopped at a barrier, the barrier is complete by construction; waves
that ended do not take part (as on hardware). Where some wait for another workgroup, the scheduler returns; called
again, it lets those alone run (`interleaving.py`). Where turns end between accesses (`wave_turns.py`), a round has
several passes: each lets those waves go on whose turn alone was over, in another order, and under the same numbers of
turns, so that the race check knows who is who.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.checks import layout, race_lds, recording, wait_lds
from ckmlir.sim.state import Status
from ckmlir.sim.wave_turns import LENGTHS


def _load(offset: int, name: str, type: str = "i64") -> str:
    place = f"  %{name}_at = getelementptr i8, ptr %context, i64 {offset}\n"
    return place + f"  %{name} = load {type}, ptr %{name}_at, align 8\n"


def _workgroup_ids() -> str:
    """Write the workgroup's coordinates to the registers the kernel asked for, if any."""
    lines = []
    for dimension in range(3):
        lines.append(_load(state.WORKGROUP_ID_SGPR + 8 * dimension, f"place{dimension}"))
        lines.append(f"""  %wanted{dimension} = icmp sge i64 %place{dimension}, 0
  br i1 %wanted{dimension}, label %write{dimension}, label %skip{dimension}
write{dimension}:
  %register{dimension} = getelementptr i8, ptr %wave, i64 %place{dimension}
  store i32 %id{dimension}, ptr %register{dimension}, align 4
  br label %skip{dimension}
skip{dimension}:
""")
    return "".join(lines)


def _store(offset: int, value: str, name: str) -> str:
    return (
        f"  %{name}_at = getelementptr i8, ptr %context, i64 {offset}\n  store i64 {value}, ptr %{name}_at, align 8\n"
    )


def _copy_shadows() -> str:
    """Bring the shadow of %wave to what it is at the start, and the bytes that say which registers have one."""
    lines = []
    copies = {
        "registers": (layout.SHADOW, "%setup_bytes"),
        "accumulators": (layout.SHADOW + state.VGPR + 256 * state.VGPR_BYTES, "%agpr_bytes"),
        "mixed": (layout.MIXED, "512"),
    }
    for name, (offset, bytes) in copies.items():
        lines.append(f"""  %{name}_to = getelementptr i8, ptr %wave, i64 {offset}
  %{name}_from = getelementptr i8, ptr %source, i64 {offset}
  call void @llvm.memcpy.p0.p0.i64(ptr %{name}_to, ptr %{name}_from, i64 {bytes}, i1 false)
""")
    return "".join(lines)


PAUSED = -2
"""What running workgroups returns where one waits for another; -1 when all have ended."""
SCHEDULER = f"""
attributes #1 = {{ nounwind noinline }}
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.umax.i64(i64, i64)
{recording.NOTE_FINDING}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)
{wait_lds.SCHEDULED}

define i64 @ckmlir_run_workgroups(ptr %context, i64 %first, i64 %last, i64 %resumed) nounwind {{
entry:
{_load(state.WAVES, "waves", "ptr")}{_load(state.WAVE_COUNT, "wave_count")}{_load(state.TEMPLATE, "template", "ptr")}
{_load(state.LDS_BASE, "lds", "ptr")}{_load(state.LDS_SIZE, "lds_size")}
{_load(state.LDS_TEMPLATE, "lds_template", "ptr")}
{_load(state.GRID_X, "grid_x")}{_load(state.GRID_Y, "grid_y")}
{_load(state.USED_VGPR_BYTES, "vgpr_bytes")}{_load(state.USED_AGPR_BYTES, "agpr_bytes")}
{_load(state.WAVE_ORDER, "order", "ptr")}{_load(state.WAVE_ORDER_ROWS, "order_rows")}
{_load(state.CHECKED, "checked")}  %checks_barriers64 = and i64 %checked, {layout.BARRIER}
  %checks_barriers = icmp ne i64 %checks_barriers64, 0
{_load(state.LDS_SHADOW, "lds_shadow", "ptr")}  %shadows64 = and i64 %checked, {layout.INITIALISATION}
  %shadows = icmp ne i64 %shadows64, 0
  %has_lds_shadow = icmp ne ptr %lds_shadow, null
  %waits64 = and i64 %checked, {layout.WAIT}
  %checks_waits = icmp ne i64 %waits64, 0
{_load(state.LDS_CELLS, "lds_cells", "ptr")}  %watches_lds = icmp ne ptr %lds_cells, null
  %lds_rounded = add i64 %lds_size, 63
  %lds_count = and i64 %lds_rounded, -64
  %lds_tags = mul i64 %lds_count, {race_lds.TAGS}
  %round_at = getelementptr i8, ptr %context, i64 {state.ROUND}
  %turn_at = getelementptr i8, ptr %context, i64 {state.TURN}
  %setup_bytes = add i64 %vgpr_bytes, {state.VGPR}
{_load(state.TURN_LENGTHS, "turn_lengths", "ptr")}  %ends_turns = icmp ne ptr %turn_lengths, null
  %turns_taken_at = getelementptr i8, ptr %context, i64 {state.TURNS_TAKEN}
  %turn_left_at = getelementptr i8, ptr %context, i64 {state.TURN_LEFT}
  %goes_on = icmp ne i64 %resumed, 0
  %paused_at = getelementptr i8, ptr %context, i64 {state.PAUSED}
  br label %group_head

group_head:
  %group = phi i64 [ %first, %entry ], [ %next_group, %group_done ]
  %stop_at = getelementptr i8, ptr %context, i64 {state.STOP}
  %stop = load i64, ptr %stop_at, align 8
  %is_stopped = icmp ne i64 %stop, 0
  %begins = xor i1 %goes_on, true
  %stopped = and i1 %is_stopped, %begins
  %at_end = icmp uge i64 %group, %last
  %all_done = or i1 %at_end, %stopped
  br i1 %all_done, label %finished, label %group_start
group_start:
  %x64 = urem i64 %group, %grid_x
  %rows = udiv i64 %group, %grid_x
  %y64 = urem i64 %rows, %grid_y
  %z64 = udiv i64 %rows, %grid_y
  %id0 = trunc i64 %x64 to i32
  %id1 = trunc i64 %y64 to i32
  %id2 = trunc i64 %z64 to i32
{_store(state.CURRENT_GROUP, "%group", "current_group")}{_store(state.WAIT_LATE_COUNT, "0", "late_count")}
{_store(state.WAIT_LATE_CHUNKS, "0", "late_chunks")}  %was_begun = icmp eq i64 %group, %first
  %is_resumed = and i1 %goes_on, %was_begun
  br i1 %is_resumed, label %round, label %begin_group
begin_group:
  store i64 0, ptr %paused_at, align 8
  %turn_of_group = load i64, ptr %turn_at, align 8
  %group_turn = add i64 %turn_of_group, 1
{_store(state.GROUP_START, "%group_turn", "group_start")}
  call void @llvm.memcpy.p0.p0.i64(ptr %lds, ptr %lds_template, i64 %lds_size, i1 false)
  br i1 %has_lds_shadow, label %undefine_lds, label %set_up
undefine_lds:
  call void @llvm.memset.p0.i64(ptr %lds_shadow, i8 -1, i64 %lds_size, i1 false)
  br label %set_up
set_up:
  br label %setup

setup:
  %w = phi i64 [ 0, %set_up ], [ %w_next, %skip2 ]
  %wave_offset = mul i64 %w, {state.WAVE_BYTES}
  %wave = getelementptr i8, ptr %waves, i64 %wave_offset
  %source = getelementptr i8, ptr %template, i64 %wave_offset
  call void @llvm.memcpy.p0.p0.i64(ptr %wave, ptr %source, i64 %setup_bytes, i1 false)
  %agprs = getelementptr i8, ptr %wave, i64 {state.VGPR + 256 * state.VGPR_BYTES}
  %agpr_source = getelementptr i8, ptr %source, i64 {state.VGPR + 256 * state.VGPR_BYTES}
  call void @llvm.memcpy.p0.p0.i64(ptr %agprs, ptr %agpr_source, i64 %agpr_bytes, i1 false)
  br i1 %shadows, label %set_up_shadows, label %shadows_ready
set_up_shadows:
{_copy_shadows()}  br label %shadows_ready
shadows_ready:
  br i1 %checks_waits, label %set_up_waits, label %set_up_ids
set_up_waits:
  call void @start_waits(ptr %wave)
  br label %set_up_ids
set_up_ids:
{_workgroup_ids()}  %w_next = add i64 %w, 1
  %w_more = icmp ult i64 %w_next, %wave_count
  br i1 %w_more, label %setup, label %round

round:
  %round_number = load i64, ptr %round_at, align 8
  %round_next = add i64 %round_number, 1
  store i64 %round_next, ptr %round_at, align 8
  %turn_before = load i64, ptr %turn_at, align 8
  %round_turn = add i64 %turn_before, 1
{_store(state.ROUND_START, "%round_turn", "round_start")}  %row = urem i64 %round_number, %order_rows
  %row_start = mul i64 %row, %wave_count
  br i1 %watches_lds, label %forget, label %begin_turns
forget:
  call void @llvm.memset.p0.i64(ptr %lds_cells, i8 0, i64 %lds_tags, i1 false)
  br label %begin_turns
begin_turns:
  %paused_before = load i64, ptr %paused_at, align 8
  %all_go_on = icmp eq i64 %paused_before, 0
  br label %pass
pass:
  %passes = phi i64 [ 0, %begin_turns ], [ %passes_next, %pass_done ]
  %ended_before = phi i64 [ 0, %begin_turns ], [ %ended_next, %pass_done ]
  %pausing_before = phi i64 [ 0, %begin_turns ], [ %pausing_next, %pass_done ]
  %begins_round = icmp eq i64 %passes, 0
  %mixing = add i64 %round_number, %passes
  %mixing_row = urem i64 %mixing, %order_rows
  %mixing_start = mul i64 %mixing_row, %wave_count
  br label %turn
turn:
  %t = phi i64 [ 0, %pass ], [ %t_next, %turn_done ]
  %living = phi i64 [ 0, %pass ], [ %living_next, %turn_done ]
  %ended = phi i64 [ %ended_before, %pass ], [ %ended_next, %turn_done ]
  %waiting = phi ptr [ null, %pass ], [ %waiting_next, %turn_done ]
  %pausing = phi i64 [ %pausing_before, %pass ], [ %pausing_next, %turn_done ]
  %switching = phi i64 [ 0, %pass ], [ %switching_next, %turn_done ]
  %mixed_index = add i64 %mixing_start, %t
  %mixed_slot = getelementptr i32, ptr %order, i64 %mixed_index
  %mixed = load i32, ptr %mixed_slot, align 4
  %mixed64 = zext i32 %mixed to i64
  %place = select i1 %begins_round, i64 %t, i64 %mixed64
  %this_turn = add i64 %round_turn, %place
  store i64 %this_turn, ptr %turn_at, align 8
  %order_index = add i64 %row_start, %place
  %order_slot = getelementptr i32, ptr %order, i64 %order_index
  %chosen = load i32, ptr %order_slot, align 4
  %chosen64 = zext i32 %chosen to i64
  %chosen_offset = mul i64 %chosen64, {state.WAVE_BYTES}
  %this = getelementptr i8, ptr %waves, i64 %chosen_offset
  %status_at = getelementptr i8, ptr %this, i64 {state.STATUS}
  %status = load i32, ptr %status_at, align 4
  %over = icmp eq i32 %status, {Status.ENDED}
  br i1 %over, label %turn_done, label %living_wave
living_wave:
  %has_paused = icmp eq i32 %status, {Status.YIELDED}
  %may_begin = or i1 %has_paused, %all_go_on
  %has_switched = icmp eq i32 %status, {Status.SWITCHED}
  %may_run = select i1 %begins_round, i1 %may_begin, i1 %has_switched
  br i1 %may_run, label %choose_length, label %stays
stays:
  br label %turn_done
choose_length:
  br i1 %ends_turns, label %take_length, label %run
take_length:
  %turns_taken = load i64, ptr %turns_taken_at, align 8
  %turns_taken_next = add i64 %turns_taken, 1
  store i64 %turns_taken_next, ptr %turns_taken_at, align 8
  %length_index = urem i64 %turns_taken, {LENGTHS}
  %length_at = getelementptr i64, ptr %turn_lengths, i64 %length_index
  %length = load i64, ptr %length_at, align 8
  store i64 %length, ptr %turn_left_at, align 8
  br label %run
run:
  %resume_at = getelementptr i8, ptr %this, i64 {state.RESUME}
  %record = load ptr, ptr %resume_at, align 8
  %handler = load ptr, ptr %record, align 8
  %result = call i32 %handler(ptr noalias %this, ptr noalias %record)
  store i32 %result, ptr %status_at, align 4
  %failed = icmp eq i32 %result, {Status.FAILED}
  br i1 %failed, label %failure, label %ran
failure:
  %error_wave = getelementptr i8, ptr %context, i64 {state.ERROR_WAVE}
  store i64 %chosen64, ptr %error_wave, align 8
  ret i64 %group
ran:
  %alive = icmp ne i32 %result, {Status.ENDED}
  %alive64 = zext i1 %alive to i64
  %bit = shl i64 1, %chosen64
  %with_this = or i64 %ended, %bit
  %ended_here = select i1 %alive, i64 %ended, i64 %with_this
  %waiting_here = select i1 %alive, ptr %this, ptr %waiting
  %pauses = icmp eq i32 %result, {Status.YIELDED}
  %pauses64 = zext i1 %pauses to i64
  %pausing_here = or i64 %pausing, %pauses64
  %switches = icmp eq i32 %result, {Status.SWITCHED}
  %switches64 = zext i1 %switches to i64
  %switching_here = or i64 %switching, %switches64
  br label %turn_done
turn_done:
  %counted = phi i64 [ 0, %turn ], [ %alive64, %ran ], [ 1, %stays ]
  %ended_next = phi i64 [ %ended, %turn ], [ %ended_here, %ran ], [ %ended, %stays ]
  %waiting_next = phi ptr [ %waiting, %turn ], [ %waiting_here, %ran ], [ %this, %stays ]
  %pausing_next = phi i64 [ %pausing, %turn ], [ %pausing_here, %ran ], [ %pausing, %stays ]
  %switching_next = phi i64 [ %switching, %turn ], [ %switching_here, %ran ], [ %switching, %stays ]
  %living_next = add i64 %living, %counted
  %t_next = add i64 %t, 1
  %t_more = icmp ult i64 %t_next, %wave_count
  br i1 %t_more, label %turn, label %pass_done
pass_done:
  %passes_next = add i64 %passes, 1
  %some_switch = icmp ne i64 %switching_next, 0
  br i1 %some_switch, label %pass, label %round_done
round_done:
  %last_turn = add i64 %turn_before, %wave_count
  store i64 %last_turn, ptr %turn_at, align 8
  store i64 %pausing_next, ptr %paused_at, align 8
  %some_pause = icmp ne i64 %pausing_next, 0
  br i1 %some_pause, label %give_up, label %complete
give_up:
  ret i64 {PAUSED}
complete:
  %again = icmp ne i64 %living_next, 0
  br i1 %again, label %meet, label %group_done
meet:
  br i1 %checks_waits, label %collect, label %examine
collect:
  call void @collect_late(ptr %context)
  br label %examine
examine:
  %some_ended = icmp ne i64 %ended_next, 0
  %missed = and i1 %some_ended, %checks_barriers
  br i1 %missed, label %note, label %round
note:
  %after_barrier_at = getelementptr i8, ptr %waiting_next, i64 {state.RESUME}
  %after_barrier = load ptr, ptr %after_barrier_at, align 8
  %barrier = getelementptr i8, ptr %after_barrier, i64 {-state.RECORD_BYTES}
  call void @note_finding(ptr %waiting_next, ptr %barrier, i64 {layout.Kind.ENDED_BEFORE_BARRIER}, i64 0, i64 0,
                          i64 %ended_next, i64 0)
  br label %round
group_done:
  %next_group = add i64 %group, 1
  br label %group_head
finished:
  ret i64 -1
}}
"""
