// A gather splits into one access a vector, each at the index of its own row; rows of one thread have one index each.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[99, 64], strides=[64, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[99, 64], strides=[64, 1]); view(d0, d1) align 8", [16, 64]>
!id_view = !ck.view<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4">
!id_window = !ck.window<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4", [16]>
!ids = !ck.tile<[16], i32, "r: 8@lane.1, d0: 2@y0 8@lane.0">
!tile = !ck.tile<[16, 64], f16, "d0: 2@y0 8@lane, d1: 8@lane 8@y1">

// CHECK-LABEL: func.func @gather
func.func @gather(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  // CHECK: %[[WINDOW:.*]] = "ck.make_window"
  %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
  %id_view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !id_view
  %id_window = "ck.make_window"(%id_view, %o) : (!id_view, i32) -> !id_window
  // CHECK: %[[LOW:.*]] = "ck.load_fragment"{{.*}} registers = array<i32: 0>
  // CHECK: %[[HIGH:.*]] = "ck.load_fragment"{{.*}} registers = array<i32: 1>
  %ids = "ck.load"(%id_window) : (!id_window) -> !ids
  // CHECK: %[[FIRST:.*]] = vector.extract %[[LOW]][0]
  // CHECK: "ck.gather_fragment"(%[[WINDOW]], %[[FIRST]]) {axis = 0 : i64,{{.*}} registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>}
  // CHECK: %[[SECOND:.*]] = vector.extract %[[HIGH]][0]
  // CHECK: "ck.gather_fragment"(%[[WINDOW]], %[[SECOND]]) {axis = 0 : i64,{{.*}} registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>}
  // CHECK-NOT: gather_fragment
  %tile = "ck.gather"(%window, %ids) {axis = 0} : (!window, !ids) -> !tile
  return
}
