"""The compiled loop that runs workgroups: sets up the waves, lets each run to its next barrier, in an order that
varies, until all end.

A wave stops at a barrier, at its end, or with an error; a round lets every living wave run once. When all living waves
have stopped at a barrier, the barrier is complete by construction; waves that ended do not take part (as on hardware).
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.state import Status


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


SCHEDULER = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)

define i64 @ckmlir_run_workgroups(ptr %context, i64 %first, i64 %last) nounwind {{
entry:
{_load(state.WAVES, "waves", "ptr")}{_load(state.WAVE_COUNT, "wave_count")}{_load(state.TEMPLATE, "template", "ptr")}
{_load(state.LDS_BASE, "lds", "ptr")}{_load(state.LDS_SIZE, "lds_size")}
{_load(state.LDS_TEMPLATE, "lds_template", "ptr")}
{_load(state.GRID_X, "grid_x")}{_load(state.GRID_Y, "grid_y")}
{_load(state.USED_VGPR_BYTES, "vgpr_bytes")}{_load(state.USED_AGPR_BYTES, "agpr_bytes")}
{_load(state.WAVE_ORDER, "order", "ptr")}{_load(state.WAVE_ORDER_ROWS, "order_rows")}
  %round_at = getelementptr i8, ptr %context, i64 {state.ROUND}
  %setup_bytes = add i64 %vgpr_bytes, {state.VGPR}
  br label %group_head

group_head:
  %group = phi i64 [ %first, %entry ], [ %next_group, %group_done ]
  %all_done = icmp uge i64 %group, %last
  br i1 %all_done, label %finished, label %group_start
group_start:
  %x64 = urem i64 %group, %grid_x
  %rows = udiv i64 %group, %grid_x
  %y64 = urem i64 %rows, %grid_y
  %z64 = udiv i64 %rows, %grid_y
  %id0 = trunc i64 %x64 to i32
  %id1 = trunc i64 %y64 to i32
  %id2 = trunc i64 %z64 to i32
  call void @llvm.memcpy.p0.p0.i64(ptr %lds, ptr %lds_template, i64 %lds_size, i1 false)
  br label %setup

setup:
  %w = phi i64 [ 0, %group_start ], [ %w_next, %skip2 ]
  %wave_offset = mul i64 %w, {state.WAVE_BYTES}
  %wave = getelementptr i8, ptr %waves, i64 %wave_offset
  %source = getelementptr i8, ptr %template, i64 %wave_offset
  call void @llvm.memcpy.p0.p0.i64(ptr %wave, ptr %source, i64 %setup_bytes, i1 false)
  %agprs = getelementptr i8, ptr %wave, i64 {state.VGPR + 256 * state.VGPR_BYTES}
  %agpr_source = getelementptr i8, ptr %source, i64 {state.VGPR + 256 * state.VGPR_BYTES}
  call void @llvm.memcpy.p0.p0.i64(ptr %agprs, ptr %agpr_source, i64 %agpr_bytes, i1 false)
{_workgroup_ids()}  %w_next = add i64 %w, 1
  %w_more = icmp ult i64 %w_next, %wave_count
  br i1 %w_more, label %setup, label %round

round:
  %round_number = load i64, ptr %round_at, align 8
  %round_next = add i64 %round_number, 1
  store i64 %round_next, ptr %round_at, align 8
  %row = urem i64 %round_number, %order_rows
  %row_start = mul i64 %row, %wave_count
  br label %turn
turn:
  %t = phi i64 [ 0, %round ], [ %t_next, %turn_done ]
  %living = phi i64 [ 0, %round ], [ %living_next, %turn_done ]
  %order_index = add i64 %row_start, %t
  %order_slot = getelementptr i32, ptr %order, i64 %order_index
  %chosen = load i32, ptr %order_slot, align 4
  %chosen64 = zext i32 %chosen to i64
  %chosen_offset = mul i64 %chosen64, {state.WAVE_BYTES}
  %this = getelementptr i8, ptr %waves, i64 %chosen_offset
  %status_at = getelementptr i8, ptr %this, i64 {state.STATUS}
  %status = load i32, ptr %status_at, align 4
  %over = icmp eq i32 %status, {Status.ENDED}
  br i1 %over, label %turn_done, label %run
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
  br label %turn_done
turn_done:
  %counted = phi i64 [ 0, %turn ], [ %alive64, %ran ]
  %living_next = add i64 %living, %counted
  %t_next = add i64 %t, 1
  %t_more = icmp ult i64 %t_next, %wave_count
  br i1 %t_more, label %turn, label %round_done
round_done:
  %again = icmp ne i64 %living_next, 0
  br i1 %again, label %round, label %group_done
group_done:
  %next_group = add i64 %group, 1
  br label %group_head
finished:
  ret i64 -1
}}
"""
