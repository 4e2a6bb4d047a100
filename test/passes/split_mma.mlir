// A matrix multiplication becomes one instruction a block, K the outermost, and loops carry accumulators as it takes them.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!a = !ck.tile<[32, 32], f16, "d0: 2@y0 16@lane.1, d1: 2@y1 4@lane.0 4@y2">
!b = !ck.tile<[16, 32], f16, "d0: 16@lane.1, d1: 2@y0 4@lane.0 4@y1">
!acc = !ck.tile<[32, 16], f32, "d0: 2@y0 4@lane 4@y1, d1: 16@lane">

// CHECK-LABEL: func.func @mma
// CHECK: scf.for {{.*}} iter_args(%[[C0:.*]] = %{{.*}}, %[[C1:.*]] = %{{.*}}) -> (vector<4xf32>, vector<4xf32>)
// CHECK: %[[D0:.*]] = "ck.mfma"(%{{.*}}, %{{.*}}, %[[C0]]) {instruction = "f32.16x16x16f16", {{.*}}}
// CHECK: %[[D1:.*]] = "ck.mfma"(%{{.*}}, %{{.*}}, %[[C1]])
// CHECK: %[[E0:.*]] = "ck.mfma"(%{{.*}}, %{{.*}}, %[[D0]])
// CHECK: %[[E1:.*]] = "ck.mfma"(%{{.*}}, %{{.*}}, %[[D1]])
// CHECK-NEXT: scf.yield %[[E0]], %[[E1]]
// CHECK: return
func.func @mma(%x: f16, %z: f32, %n: i32, %one: i32) attributes {ck.waves = 1 : i32} {
  %a = "ck.splat"(%x) : (f16) -> !a
  %b = "ck.splat"(%x) : (f16) -> !b
  %zero = "ck.splat"(%z) : (f32) -> !acc
  %sum = scf.for %i = %one to %n step %one iter_args(%c = %zero) -> (!acc) : i32 {
    %next = "ck.mma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!a, !b, !acc) -> !acc
    scf.yield %next : !acc
  }
  return
}

// Operands are swapped for a transposed product: b comes first.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: (%[[X:.*]]: f16, %[[Y:.*]]: f16,
// CHECK-DAG: %[[A:.*]] = vector.broadcast %[[X]] : f16 to vector<4xf16>
// CHECK-DAG: %[[B:.*]] = vector.broadcast %[[Y]] : f16 to vector<4xf16>
// CHECK: "ck.mfma"(%[[B]], %[[A]], %{{.*}})
func.func @transposed(%x: f16, %y: f16, %z: f32) attributes {ck.waves = 1 : i32} {
  %a = "ck.splat"(%x) : (f16) -> !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
  %b = "ck.splat"(%y) : (f16) -> !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
  %c = "ck.splat"(%z) : (f32) -> !ck.tile<[16, 16], f32, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
  %d = "ck.mma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1 transposed"}
    : (!ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">, !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">, !ck.tile<[16, 16], f32, "d0: 16@lane.1, d1: 4@lane.0 4@y0">)
    -> !ck.tile<[16, 16], f32, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
  return
}

// A carried tile that no matrix instruction asks for travels in vectors of 16.
// CHECK-LABEL: func.func @carried
// CHECK: scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, i32)
func.func @carried(%x: f32, %n: i32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[2048], f32, "d0: 64@lane 32@y0">
  %r:2 = scf.for %i = %n to %n step %n iter_args(%c = %t, %s = %n) -> (!ck.tile<[2048], f32, "d0: 64@lane 32@y0">, i32) : i32 {
    scf.yield %c, %i : !ck.tile<[2048], f32, "d0: 64@lane 32@y0">, i32
  }
  return
}
