// A read whose value reaches a product only through arithmetic is placed with its stage, not ahead of the product. An
// access that takes the result of a product stands behind the product, here at the end of the step.

// RUN: ckmlir-opt %s --ck-pipeline-loops | filecheck %s

!lds = !ck.lds<[256], f16>
!out = !ck.lds<[256], f32>
!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); view(d0, d1) align 16">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); view(d0, d1) align 16", [4, 64]>
module attributes {ck.target = "gfx942"} {
// CHECK-LABEL: func.func @used
// CHECK:      ^bb2
// CHECK:      "ck.mfma"(%arg1, %arg1
// CHECK:      "ck.mfma"(%arg1, %arg1
// CHECK:      %[[ROW:.*]] = "ck.lds_read"
// CHECK:      "ck.mfma"(%arg1, %arg1
// CHECK:      "ck.mfma"(%arg1, %arg1
// CHECK:      %[[WEIGHT:.*]] = arith.mulf %[[ROW]], %arg1
// CHECK:      %[[FIRST:.*]] = "ck.mfma"(%[[WEIGHT]]
// CHECK:      %[[LAST:.*]] = "ck.mfma"(%arg1, %arg1, %[[FIRST]])
// CHECK:      "ck.lds_write"(%[[LAST]]
// CHECK:      cf.cond_br
func.func @used(%n: i32, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %start) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "rows"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "rows", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %p0 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "p", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %p1 = "ck.mfma"(%h, %h, %p0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "p", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %r0 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "r", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %r1 = "ck.mfma"(%h, %h, %r0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "r", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %w = arith.mulf %a, %h {ck.stage = "weights"} : vector<4xf16>
    %q0 = "ck.mfma"(%w, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "q", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %q1 = "ck.mfma"(%h, %h, %q0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "q", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %o = "ck.lds_alloc"() {ck.stage = "out", layout = "lengths 256 order 0 pitch 256", name = "out"} : () -> !out
    "ck.lds_write"(%q1, %o) {ck.stage = "out", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !out) -> ()
    scf.yield %q1 : vector<4xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1; buffers 2; order weave; step p, rows, r, weights, q, out, fill; lead 1; elements 4; fences products"}
  return %r : vector<4xf32>
}
// A branch that only stores stands at the end of the step.
// CHECK-LABEL: func.func @stored_if
// CHECK:      ^bb2
// CHECK:      "ck.mfma"
// CHECK:      %[[SUM:.*]] = "ck.mfma"
// CHECK:      cf.cond_br %arg2
// CHECK:      "ck.atomic_fragment"(%[[SUM]]
func.func @stored_if(%n: i32, %h: vector<4xf16>, %again: i1, %p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
  scf.for %i = %zero to %n step %one : i32 {
    %p0 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "p", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %p1 = "ck.mfma"(%h, %h, %p0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "p", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    scf.if %again {
      %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
      %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
      "ck.atomic_fragment"(%p1, %window) {kind = "add", distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !window) -> ()
    } {ck.stage = "out"}
  } {ck.schedule = "schedule s 1; order weave; step p, out; lead 1; elements 4; fences products"}
  return
}
}
