// A window that moves its buffer has no comparison of the rows that a loop moves along: each step, the buffer begins
// where the loop is, and has as many bytes less, and 0 behind the view's end. Where no row has to be refused nothing moves, nor for one or two
// loads of a lane.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8", [16, 32]>
// CHECK-LABEL: llvm.func @rows
// CHECK: ^bb1(%[[I:[a-z0-9]+]]: i32
// CHECK: %[[AT:.*]] = arith.shli %[[I]], %{{.*}} : i32
// CHECK: %[[MOST:.*]] = arith.maxui %{{.*}}, %[[AT]] : i32
// CHECK: %[[LEFT:.*]] = arith.subi %[[MOST]], %[[AT]] : i32
// CHECK: %[[FAR:.*]] = arith.extui %[[AT]] : i32 to i64
// CHECK: %[[BASE:.*]] = llvm.getelementptr %{{.*}}[%[[FAR]]] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
// CHECK: %[[SIZE:.*]] = arith.extui %[[LEFT]] : i32 to i64
// CHECK: %[[BUFFER:.*]] = rocdl.make.buffer.rsrc %[[BASE]], %{{.*}}, %[[SIZE]], %{{.*}} : <1> to <8>
// CHECK-NOT: arith.andi
// CHECK-NOT: arith.select
// CHECK: %[[NOTHING:.*]] = arith.constant 0 : i32
// CHECK: rocdl.raw.ptr.buffer.load %[[BUFFER]], %{{.*}}, %[[NOTHING]], 0 : i32
// CHECK-NOT: arith.ori
// CHECK: rocdl.raw.ptr.buffer.load %[[BUFFER]], %{{.*}}, %[[NOTHING]], 0 : i32
module attributes {ck.target = "gfx942"} {
  func.func @rows(%p: !llvm.ptr<1>, %m: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 16 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %v = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %w = "ck.make_window"(%v, %i, %zero) {moves_buffer} : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 4@y0 4@lane, d1: 16@lane 2@y1", registers = array<i32: 0, 1>} : (!window) -> vector<2xf16>
    %u = "ck.load_fragment"(%w) {distribution = "d0: 4@y0 4@lane, d1: 16@lane 2@y1", registers = array<i32: 2, 3>} : (!window) -> vector<2xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// CHECK-LABEL: llvm.func @whole
// CHECK: ^bb1(%[[I:[a-z0-9]+]]: i32
// CHECK: %[[AT:.*]] = arith.shli %[[I]], %{{.*}} : i32
// CHECK-NOT: llvm.getelementptr
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[AT]], 0 : i32
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[32, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[32, 1]); view(d0, d1) align 8", [16, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @whole(%p: !llvm.ptr<1>, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 16 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %i, %zero) {moves_buffer} : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 4@y0 4@lane, d1: 16@lane 2@y1", registers = array<i32: 0, 1>} : (!window) -> vector<2xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// CHECK-LABEL: llvm.func @single
// CHECK: ^bb1(%[[I:[a-z0-9]+]]: i32
// CHECK: %[[AT:.*]] = arith.shli %[[I]], %{{.*}} : i32
// CHECK-NOT: llvm.getelementptr
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[AT]], 0 : vector<4xi32>
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8", [16, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @single(%p: !llvm.ptr<1>, %m: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 16 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %v = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %w = "ck.make_window"(%v, %i, %zero) {moves_buffer} : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}
