// Positions that a window's rows have rest in every loop. Of four that all lanes of a quad load at, wherever they lie,
// each lane finds the offset of one, and which places of the window exist for it. Assembly moves both to all lanes, of
// equal operands in a loop and before it, so that nothing is moved in the loop, whatever is
// loaded there before.

// RUN: ckmlir-opt %s --ck-lower-fragments --cse --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 8], strides=[?2%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?4); d4 = right_pad(d3, length=(?1 + ?4), pad=?5); d5 d6 = embed(d4, lengths=[?6, ?7], strides=[?8, ?9], few=1); d7 = merge(d0, d5, lengths=[?0, ?6]); d8 = merge(d6, d2, lengths=[?7, 8]); view(d7, d8) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 8], strides=[?2%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?4); d4 = right_pad(d3, length=(?1 + ?4), pad=?5); d5 d6 = embed(d4, lengths=[?6, ?7], strides=[?8, ?9], few=1); d7 = merge(d0, d5, lengths=[?0, ?6]); d8 = merge(d6, d2, lengths=[?7, 8]); view(d7, d8) align 8", [256, 32]>

// CHECK-LABEL: llvm.func @at_rest
// CHECK: %[[OFFSETS:.*]] = llvm.inline_asm "s_nop 1\0Av_mov_b32_dpp $0, $4 quad_perm:[0,0,0,0] {{.*}}v_mov_b32_dpp $3, $4 quad_perm:[3,3,3,3]
// CHECK-COUNT-1: llvm.intr.bitreverse
// CHECK: %[[BITS:.*]] = llvm.inline_asm "s_nop 1\0Av_mov_b32_dpp
// CHECK: %[[MISSING:.*]] = llvm.extractvalue %[[BITS]][0]
// CHECK: arith.shli %[[MISSING]],
// CHECK-COUNT-4: rocdl.raw.ptr.buffer.load
// CHECK-NOT: llvm.inline_asm
// CHECK-NOT: llvm.intr.bitreverse
// CHECK-NOT: rocdl.update.dpp
// CHECK: ^bb1(
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: llvm.inline_asm
// CHECK: arith.shli %[[MISSING]],
// CHECK-COUNT-4: rocdl.raw.ptr.buffer.load
// CHECK-NOT: llvm.inline_asm
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @at_rest(%p: !llvm.ptr<1>, %images: i32, %rows: i32, %step: i32, %pitch: i32, %left: i32, %right: i32, %positions: i32, %places: i32, %stride: i32, %dilation: i32, %row: i32, %end: i32) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %length = arith.constant 32 : i32
    %v = "ck.make_view"(%p, %images, %rows, %step, %pitch, %left, %right, %positions, %places, %stride, %dilation) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %2 = "ck.load_fragment"(%w) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 16, 17, 18, 19, 20, 21, 22, 23>} : (!window) -> vector<8xf16>
    %3 = "ck.load_fragment"(%w) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    cf.br ^bb1(%length : i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32):
    %a = "ck.load_fragment"(%w) {distribution = "r: 16@lane.0, d0: 4@wave 4@lane.1 16@y0, d1: 4@y1 8@y2", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %x = "ck.make_window"(%v, %row, %k) : (!view, i32, i32) -> !window
    %4 = "ck.load_fragment"(%x) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %5 = "ck.load_fragment"(%x) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %6 = "ck.load_fragment"(%x) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 16, 17, 18, 19, 20, 21, 22, 23>} : (!window) -> vector<8xf16>
    %7 = "ck.load_fragment"(%x) {distribution = "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %length : i32
    %more = arith.cmpi slt, %next, %end : i32
    cf.cond_br %more, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}
