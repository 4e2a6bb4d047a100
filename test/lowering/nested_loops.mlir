// What an outer loop advances is an origin: it moves the base of the buffer by 64-bit arithmetic, and only what the innermost loop
// advances, as the branches to its steps say, goes into the scalar offset. What a loop before has left is an origin, too.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); view(d0, d1) align 16">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); view(d0, d1) align 16", [1, 64]>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @row_by_row
  // CHECK: ^bb1(%[[ROW:.*]]: i32):
  // CHECK: ^bb2(%[[COLUMN:.*]]: i32):
  // CHECK: %[[WIDE:.*]] = arith.extui %[[ROW]] : i32 to i64
  // CHECK: %[[BASE:.*]] = llvm.getelementptr
  // CHECK: rocdl.make.buffer.rsrc %[[BASE]]
  // CHECK: %[[STEP:.*]] = arith.shli %[[COLUMN]], %{{.*}} : i32
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[STEP]], 0 : i32
  func.func @row_by_row(%p: !llvm.ptr<1>, %m: i32, %n: i32, %pitch: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m, %n, %pitch) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    cf.br ^bb1(%zero : i32)
  ^bb1(%row: i32):
    cf.br ^bb2(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb2(%column: i32):
    %w = "ck.make_window"(%view, %row, %column) : (!view, i32, i32) -> !window
    %v = "ck.load_fragment"(%w) {distribution = "d0: , d1: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %step = arith.constant 64 : i32
    %next = arith.addi %column, %step : i32
    // CHECK: cf.cond_br %{{.*}}, ^bb2(%{{.*}} : i32), ^bb3
    // CHECK-NOT: ck.advances
    cf.cond_br %c, ^bb2(%next : i32), ^bb3 {ck.advances = array<i32: 0>}
  ^bb3:
    %one = arith.constant 1 : i32
    %below = arith.addi %row, %one : i32
    cf.cond_br %c, ^bb1(%below : i32), ^bb4
  ^bb4:
    return
  }
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16", [64]>
module attributes {ck.target = "gfx942"} {
  // The place that a search has found is where a tile begins.
  // CHECK-LABEL: llvm.func @behind_a_search
  // CHECK: ^bb2(%[[FOUND:.*]]: i32):
  // CHECK: arith.extui %[[FOUND]] : i32 to i64
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[ZERO]], 0 : i32
  func.func @behind_a_search(%p: !llvm.ptr<1>, %n: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %one = arith.constant 1 : i32
    %next = arith.addi %i, %one : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2(%next : i32) {ck.advances = array<i32: 0>}
  ^bb2(%found: i32):
    %w = "ck.make_window"(%view, %found) : (!view, i32) -> !window
    %v = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    return
  }
}
