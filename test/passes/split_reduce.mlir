// A reduction folds registers, then lanes by one exchange for each bit of the lane index, then waves through LDS.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

// Registers only: halves are folded as vectors, 4 to 2 to 1.
// CHECK-LABEL: func.func @thread
// CHECK-COUNT-2: arith.addf
// CHECK-NOT: arith.addf
// CHECK-NOT: ck.exchange
// CHECK: return
func.func @thread(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[64], f32, "d0: 64@lane">
  return
}

// An odd number of registers: 3 is 1 and 1 and 1.
// CHECK-LABEL: func.func @odd
// CHECK-COUNT-2: arith.addf {{.*}} : vector<1xf32>
// CHECK-NOT: arith.addf
// CHECK: return
func.func @odd(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[64, 3], f32, "d0: 64@lane, d1: 3@y0">
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[64, 3], f32, "d0: 64@lane, d1: 3@y0">) -> !ck.tile<[64], f32, "d0: 64@lane">
  return
}

// 16 lanes next to each other: four exchanges, from the nearest; those that follow folded bits may take any lane of them.
// CHECK-LABEL: func.func @near_lanes
// CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 1 : i64}
// CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 2 : i64}
// CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 4 : i64}
// CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 8 : i64}
// CHECK-NOT: "ck.exchange"
// CHECK: return
func.func @near_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">) -> !ck.tile<[4], f32, "r: 16@lane.1, d0: 4@lane.0">
  return
}

// Lanes 16 apart: their bits are 16 and 32, and the lanes below hold other elements.
// CHECK-LABEL: func.func @far_lanes
// CHECK: "ck.exchange"(%{{.*}}) {mask = 16 : i64}
// CHECK: "ck.exchange"(%{{.*}}) {mask = 32 : i64}
// CHECK-NOT: "ck.exchange"
// CHECK: return
func.func @far_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">) -> !ck.tile<[16], f32, "r: 4@lane, d0: 16@lane">
  return
}

// Two waves along the axis: one trip through LDS, both partial results of a row in one read, folded in order.
// CHECK-LABEL: func.func @waves
// CHECK-COUNT-6: "ck.exchange"
// CHECK-NOT: "ck.exchange"
// CHECK: "ck.lds_alloc"() {layout = "lengths 2x1 order 1,0 pitch 2", name = "partials0"}
// CHECK: "ck.lds_write"{{.*}}registers = array<i32: 0>
// CHECK: "ck.lds_read"{{.*}}registers = array<i32: 0, 1>{{.*}} -> vector<2xf32>
// CHECK: arith.addf {{.*}} : vector<1xf32>
// CHECK-NOT: arith.addf
// CHECK: return
func.func @waves(%x: f32) attributes {ck.waves = 2 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[1, 128], f32, "d0: 1, d1: 2@wave 64@lane">
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[1, 128], f32, "d0: 1, d1: 2@wave 64@lane">) -> !ck.tile<[1], f32, "r: 2@wave 64@lane, d0: 1">
  return
}

// Two tiles fold together: both are exchanged before the combiner runs.
// CHECK-LABEL: func.func @pair
// CHECK: "ck.exchange"
// CHECK-NEXT: "ck.exchange"
// CHECK-NEXT: arith.cmpf
func.func @pair(%x: f32, %i: i32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[32, 2], f32, "d0: 32@lane, d1: 2@lane">
  %u = "ck.splat"(%i) : (i32) -> !ck.tile<[32, 2], i32, "d0: 32@lane, d1: 2@lane">
  %0:2 = "ck.reduce"(%t, %u) ({
  ^bb0(%a: f32, %i0: i32, %b: f32, %i1: i32):
    %less = arith.cmpf olt, %a, %b : f32
    %c = arith.select %less, %b, %a : f32
    %d = arith.select %less, %i1, %i0 : i32
    "ck.yield"(%c, %d) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (f32, i32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (!ck.tile<[32, 2], f32, "d0: 32@lane, d1: 2@lane">, !ck.tile<[32, 2], i32, "d0: 32@lane, d1: 2@lane">)
    -> (!ck.tile<[32], f32, "r: 2@lane.1, d0: 32@lane.0">, !ck.tile<[32], i32, "r: 2@lane.1, d0: 32@lane.0">)
  return
}

// Maxima are a chain of pairs, so that an instruction takes two more at a time; an odd one joins at the end.
// CHECK-LABEL: func.func @maxima
// CHECK-COUNT-3: arith.maxnumf {{.*}} : vector<2xf32>
// CHECK: arith.maxnumf {{.*}} : vector<1xf32>
// CHECK: arith.maxnumf {{.*}} : vector<1xf32>
// CHECK-NOT: arith.maxnumf
// CHECK: return
func.func @maxima(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[64, 9], f32, "d0: 64@lane, d1: 9@y0">
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[64, 9], f32, "d0: 64@lane, d1: 9@y0">) -> !ck.tile<[64], f32, "d0: 64@lane">
  return
}
