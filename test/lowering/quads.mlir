// Four places that follow each other, and that all lanes of a quad load at, are divided once: each lane divides one of
// them, and what the others need comes to them by a move within the quad.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8", [32, 64]>

// Lanes of a quad differ along the first dimension, and have the same four places along the second.
// CHECK-LABEL: llvm.func @shared
// CHECK: %[[LANE:.*]] = rocdl.workitem.id.x
// CHECK-DAG: %[[THREE:.*]] = arith.constant 3 : i32
// CHECK: %[[SEAT:.*]] = arith.andi %[[LANE]], %[[THREE]]
// CHECK: arith.shrui {{.*}} : i64
// CHECK: arith.minui
// CHECK-COUNT-1: rocdl.update.dpp {{.*}} with 0,
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: arith.shrui {{.*}} : i64
// CHECK: rocdl.update.dpp {{.*}} with 85,
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK: rocdl.update.dpp {{.*}} with 170,
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK: rocdl.update.dpp {{.*}} with 255,
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: arith.shrui {{.*}} : i64
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @shared(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %row: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %2 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 16, 17, 18, 19, 20, 21, 22, 23>} : (!window) -> vector<8xf16>
    %3 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

// Lanes of a quad that load at different places divide for themselves.
// CHECK-LABEL: llvm.func @apart
// CHECK-NOT: rocdl.update.dpp
// CHECK: llvm.return
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8", [32, 64]>
module attributes {ck.target = "gfx942"} {
  func.func @apart(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %row: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.0 8@y1, d1: 16@lane.1 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.0 8@y1, d1: 16@lane.1 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

// Nor is there anything to share where the four places are known to lie in one row: the rest of the division is known.
// CHECK-LABEL: llvm.func @one_row
// CHECK-NOT: rocdl.update.dpp
// CHECK: llvm.return
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1%4], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1%4]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1%4], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1%4]); view(d0, d3) align 8", [32, 64]>
module attributes {ck.target = "gfx942"} {
  func.func @one_row(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %row: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    return
  }
}
