// A scan takes the digits of its axis from the fastest to the slowest: registers, lanes by exchanges, waves through LDS.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

// Registers only: one addition behind the other, all rows of a thread in one vector; nothing crosses lanes.
// CHECK-LABEL: func.func @thread
// CHECK-COUNT-3: arith.addf {{.*}} : vector<2xf32>
// CHECK-NOT: arith.addf
// CHECK-NOT: ck.exchange
// CHECK: return
func.func @thread(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[128, 4], f32, "d0: 2@y0 64@lane, d1: 4@y1">
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!ck.tile<[128, 4], f32, "d0: 2@y0 64@lane, d1: 4@y1">) -> !ck.tile<[128, 4], f32, "d0: 2@y0 64@lane, d1: 4@y1">
  return
}

// Exclusive: the first register is the identity, and the total of all four is not asked for but by a digit to come.
// CHECK-LABEL: func.func @exclusive
// CHECK-COUNT-3: arith.addf {{.*}} : vector<1xf32>
// CHECK-NOT: arith.addf
// CHECK: vector.broadcast %{{.*}} : f32 to vector<1xf32>
// CHECK: return
func.func @exclusive(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, identity = [0.0 : f32], operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  return
}

// Four lanes next to each other: lanes that have met hold equal totals, so the second exchange may take either; what
// lies before a lane joins what it holds at the end.
// CHECK-LABEL: func.func @near_lanes
// CHECK: "ck.thread_coordinate"() {axis = 0 : i64, distribution = "r: 16@lane, d0: 4@lane"}
// CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 1 : i64}
// CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 2 : i64}
// CHECK-NOT: "ck.exchange"
// CHECK: arith.select
// CHECK: return
func.func @near_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[16, 4], f32, "d0: 16@lane, d1: 4@lane">
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!ck.tile<[16, 4], f32, "d0: 16@lane, d1: 4@lane">) -> !ck.tile<[16, 4], f32, "d0: 16@lane, d1: 4@lane">
  return
}

// Lanes 16 apart: the lanes below hold other elements.
// CHECK-LABEL: func.func @far_lanes
// CHECK: "ck.exchange"(%{{.*}}) {mask = 16 : i64}
// CHECK: "ck.exchange"(%{{.*}}) {mask = 32 : i64}
// CHECK-NOT: "ck.exchange"
// CHECK: return
func.func @far_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">) -> !ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">
  return
}

// A combiner that does not commute gets what comes first on its left, in every lane: totals are chosen by the lane's bit.
// CHECK-LABEL: func.func @order
// CHECK: "ck.exchange"
// CHECK: %[[LEFT:.*]] = arith.select
// CHECK: %[[RIGHT:.*]] = arith.select
// CHECK: arith.subf %[[LEFT]], %[[RIGHT]]
// CHECK: return
func.func @order(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[32, 2], f32, "d0: 32@lane, d1: 2@lane">
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!ck.tile<[32, 2], f32, "d0: 32@lane, d1: 2@lane">) -> !ck.tile<[32, 2], f32, "d0: 32@lane, d1: 2@lane">
  return
}

// Two waves: each leaves its total in LDS and reads both.
// CHECK-LABEL: func.func @waves
// CHECK-COUNT-6: "ck.exchange"
// CHECK-NOT: "ck.exchange"
// CHECK: "ck.lds_alloc"() {layout = "lengths 2x1 order 1,0 pitch 2", name = "scan0"}
// CHECK: "ck.lds_write"{{.*}}begins{{.*}}registers = array<i32: 0>
// CHECK: "ck.lds_read"{{.*}}registers = array<i32: 0, 1>{{.*}} -> vector<2xf32>
// CHECK: return
func.func @waves(%x: f32) attributes {ck.waves = 2 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[128], f32, "d0: 2@wave 64@lane">
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!ck.tile<[128], f32, "d0: 2@wave 64@lane">) -> !ck.tile<[128], f32, "d0: 2@wave 64@lane">
  return
}
