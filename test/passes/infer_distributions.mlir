// Distributions spread from the tiles that have one to all that depend on them.

// RUN: ckmlir-opt %s --ck-infer-distributions | filecheck %s

!known = !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
!half = !ck.tile<[16, 16], f16, "?">
!unknown = !ck.tile<[16, 16], f32, "?">
!row = !ck.tile<[16], f32, "?">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[16, 16], strides=[16, 1]); view(d0, d1) align 4", [16, 16]>
!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[16, 16], strides=[16, 1]); view(d0, d1) align 4">

// Through a map, to its sources and from them, and through casts.
// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: f32) attributes {ck.waves = 1 : i32} {
  // CHECK: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %0 = "ck.splat"(%x) : (f32) -> !unknown
  %1 = "ck.splat"(%x) : (f32) -> !known
  // CHECK: "ck.map"
  // CHECK: -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %2 = "ck.map"() ({
    %a = "ck.element"(%0) : (!unknown) -> f32
    %b = "ck.element"(%1) : (!known) -> f32
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !unknown
  // CHECK: "ck.cast"{{.*}} -> !ck.tile<[16, 16], f16, "d0: 4@lane 4@y0, d1: 16@lane">
  %3 = "ck.cast"(%2) : (!unknown) -> !half
  return
}

// A reduction derives its result: the lanes along the axis hold copies.
// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !known
  // CHECK: "ck.reduce"
  // CHECK: -> !ck.tile<[16], f32, "r: 16@lane.1, d0: 4@lane.0 4@y0">
  %1 = "ck.reduce"(%0) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!known) -> !row
  return
}

// A scan leaves its elements where they are: what is known of its source is known of its result, and the other way round.
// CHECK-LABEL: func.func @scan
func.func @scan(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !unknown
  // CHECK: "ck.scan"
  // CHECK: : (!ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">) -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %1 = "ck.scan"(%0) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!unknown) -> !known
  return
}

// Two dimensions that become one derive from it how they lie, the second in the fastest part.
// CHECK-LABEL: func.func @joined
func.func @joined(%x: f32) attributes {ck.waves = 1 : i32} {
  // CHECK: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[16, 2, 8], f32, "d0: 4@lane 4@y0, d1: 2@lane, d2: 8@lane">
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[16, 2, 8], f32, "?">
  %1 = "ck.join_axes"(%0) {axis = 1 : i64} : (!ck.tile<[16, 2, 8], f32, "?">) -> !known
  return
}

// A broadcast derives its source, and through a map its result.
// CHECK-LABEL: func.func @broadcast
func.func @broadcast(%x: f32) attributes {ck.waves = 1 : i32} {
  // CHECK: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[16], f32, "r: 16@lane.1, d0: 4@lane.0 4@y0">
  %0 = "ck.splat"(%x) : (f32) -> !row
  // CHECK: "ck.broadcast"{{.*}} -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %1 = "ck.broadcast"(%0) {axis = 1 : i64} : (!row) -> !unknown
  %2 = "ck.splat"(%x) : (f32) -> !known
  %3 = "ck.map"() ({
    %a = "ck.element"(%1) : (!unknown) -> f32
    %b = "ck.element"(%2) : (!known) -> f32
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !unknown
  return
}

// A slice derives its result.
// CHECK-LABEL: func.func @slice
func.func @slice(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[16, 32], f32, "d0: 16@lane, d1: 2@y0 4@lane 4@y1">
  // CHECK: "ck.slice"{{.*}} -> !ck.tile<[16, 16], f32, "d0: 16@lane, d1: 4@lane 4@y0">
  %1 = "ck.slice"(%0) {axis = 1 : i64, start = 16 : i64} : (!ck.tile<[16, 32], f32, "d0: 16@lane, d1: 2@y0 4@lane 4@y1">) -> !unknown
  return
}

// What a loop carries lies the same before, inside and after it.
// CHECK-LABEL: func.func @loop
func.func @loop(%x: f32, %n: i32, %one: i32, %p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
  // CHECK: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %0 = "ck.splat"(%x) : (f32) -> !unknown
  // CHECK: scf.for {{.*}} -> (!ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">)
  %1 = scf.for %i = %one to %n step %one iter_args(%c = %0) -> (!unknown) : i32 {
    // CHECK: "ck.element"(%{{.*}}) : (!ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">) -> f32
    %2 = "ck.map"() ({
      %a = "ck.element"(%c) : (!unknown) -> f32
      "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) : () -> !unknown
    scf.yield %2 : !unknown
  }
  %3 = "ck.map"() ({
    %a = "ck.element"(%1) : (!unknown) -> f32
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !known
  return
}

// The accumulators of a matrix multiplication lie as its result.
// CHECK-LABEL: func.func @mma
func.func @mma(%x: f32, %y: f16) attributes {ck.waves = 1 : i32} {
  // CHECK: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %0 = "ck.splat"(%x) : (f32) -> !unknown
  %1 = "ck.splat"(%y) : (f16) -> !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
  %2 = "ck.mma"(%1, %1, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"}
    : (!ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">, !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">, !unknown) -> !unknown
  %3 = "ck.map"() ({
    %a = "ck.element"(%2) : (!unknown) -> f32
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !known
  return
}

// Another order of the dimensions derives either side from the other, by the inverse order backwards.
// CHECK-LABEL: func.func @permute
func.func @permute(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[2, 64, 4], f32, "d0: 2@y0, d1: 64@lane, d2: 4@y1">
  // CHECK: "ck.permute_axes"{{.*}} -> !ck.tile<[4, 2, 64], f32, "d0: 4@y1, d1: 2@y0, d2: 64@lane">
  %1 = "ck.permute_axes"(%0) {order = array<i32: 2, 0, 1>} : (!ck.tile<[2, 64, 4], f32, "d0: 2@y0, d1: 64@lane, d2: 4@y1">) -> !ck.tile<[4, 2, 64], f32, "?">
  // CHECK: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[2, 64, 4], f32, "d0: 2@y0, d1: 64@lane, d2: 4@y1">
  %2 = "ck.splat"(%x) : (f32) -> !ck.tile<[2, 64, 4], f32, "?">
  %3 = "ck.permute_axes"(%2) {order = array<i32: 2, 0, 1>} : (!ck.tile<[2, 64, 4], f32, "?">) -> !ck.tile<[4, 2, 64], f32, "d0: 4@y1, d1: 2@y0, d2: 64@lane">
  return
}

// A tile that is stretched, and meets nothing that says how it lies, repeats in registers.
// CHECK-LABEL: func.func @stretched
func.func @stretched(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !known
  // CHECK: "ck.broadcast"{{.*}} -> !ck.tile<[16, 4, 16], f32, "d0: 4@lane 4@y0, d1: 4@y1, d2: 16@lane">
  %1 = "ck.broadcast"(%0) {axis = 1 : i32} : (!known) -> !ck.tile<[16, 4, 16], f32, "?">
  // CHECK: "ck.broadcast"{{.*}} -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %2 = "ck.splat"(%x) : (f32) -> !row
  %3 = "ck.broadcast"(%2) {axis = 1 : i32} : (!row) -> !unknown
  %4 = "ck.map"() ({
    %a = "ck.element"(%3) : (!unknown) -> f32
    %b = "ck.element"(%0) : (!known) -> f32
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !unknown
  return
}
