// Fragments that a step lists by number run as far ahead as it says, and no further for what goes on from them: the second product of
// one iteration stands before the first of the next, which goes on from its sums, in the same step.

// RUN: ckmlir-opt %s --ck-pipeline-loops | filecheck %s

// CHECK-LABEL: func.func @sums
// The first product of the first iteration.
// CHECK:      %[[FIRST:.*]] = "ck.mfma"(%arg1, %arg2, %arg3)
// CHECK-NOT:  ck.mfma
// The step: the second product of this iteration, then the first of the next.
// CHECK:      ^bb{{[0-9]+}}({{.*}}%[[HALF:[^:]+]]: vector<4xf32>):
// CHECK-NOT:  cf.
// CHECK:      %[[WHOLE:.*]] = "ck.mfma"(%arg2, %arg1, %[[HALF]])
// CHECK-NOT:  cf.
// CHECK:      %[[NEXT:.*]] = "ck.mfma"(%arg1, %arg2, %[[WHOLE]])
// CHECK-NOT:  ck.mfma
// CHECK:      cf.cond_br %{{.*}}, ^bb{{[0-9]+}}({{.*}}%[[NEXT]] :
func.func @sums(%n: i32, %a: vector<4xf16>, %b: vector<4xf16>, %c: vector<4xf32>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%sum = %c) -> (vector<4xf32>) : i32 {
    %half = "ck.mfma"(%a, %b, %sum) {ck.stage = "math", instruction = "f32.16x16x16f16", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %whole = "ck.mfma"(%b, %a, %half) {ck.stage = "math", instruction = "f32.16x16x16f16", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    scf.yield %whole : vector<4xf32>
  } {ck.schedule = "schedule s 1; step math.1, math.0+1"}
  return %r : vector<4xf32>
}
