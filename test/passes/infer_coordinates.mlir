// Coordinates that are reduced and meet no tile of memory lie with lanes along the last dimension, whatever takes the
// result.

// RUN: ckmlir-opt %s --ck-infer-distributions | filecheck %s

!places = !ck.tile<[16, 64], i32, "?">
!sums = !ck.tile<[16], i32, "?">

// CHECK-LABEL: func.func @sums_of_columns
func.func @sums_of_columns(%p: !llvm.ptr<1>) attributes {ck.waves = 4 : i32} {
  %o = arith.constant 0 : i32
  // CHECK: "ck.coordinates"{{.*}} -> !ck.tile<[16, 64], i32, "d0: 4@y0 4@wave, d1: 64@lane">
  %columns = "ck.coordinates"() {axis = 1 : i64} : () -> !places
  // CHECK: "ck.reduce"
  // CHECK: -> !ck.tile<[16], i32, "r: 64@lane, d0: 4@y0 4@wave">
  %sums = "ck.reduce"(%columns) ({
  ^bb0(%a: i32, %b: i32):
    %sum = arith.addi %a, %b : i32
    "ck.yield"(%sum) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (i32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!places) -> !sums
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0)">
  %w = "ck.make_window"(%v, %o) : (!ck.view<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0)">, i32) -> !ck.window<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0)", [16]>
  "ck.store"(%sums, %w) : (!sums, !ck.window<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0)", [16]>) -> ()
  return
}
