// The last step of a reduction over lanes takes both halves of the wave where the chip swaps them in registers.

// RUN: sed 's/CHIP/gfx950/' %s | ckmlir-opt --ck-split-tiles | filecheck %s --check-prefixes CHECK,SWAPS
// RUN: sed 's/CHIP/gfx942/' %s | ckmlir-opt --ck-split-tiles | filecheck %s --check-prefixes CHECK,KEEPS

module attributes {ck.target = "CHIP"} {
  // Lanes 16 and 32 apart.
  // CHECK-LABEL: func.func @far_lanes
  // CHECK: "ck.exchange"(%{{.*}}) {mask = 16 : i64}
  // KEEPS: "ck.exchange"(%{{.*}}) {mask = 32 : i64}
  // KEEPS-NOT: "ck.half"
  // SWAPS: %[[LOW:.*]] = "ck.half"(%[[SUM:.*]]) : (vector<1xf32>)
  // SWAPS: %[[HIGH:.*]] = "ck.half"(%[[SUM]]) {upper}
  // SWAPS: arith.addf %[[LOW]], %[[HIGH]]
  // CHECK-NOT: "ck.exchange"
  // CHECK: return
  func.func @far_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
    %t = "ck.splat"(%x) : (f32) -> !ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">
    %0 = "ck.reduce"(%t) ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
      : (!ck.tile<[4, 16], f32, "d0: 4@lane, d1: 16@lane">) -> !ck.tile<[16], f32, "r: 4@lane, d0: 16@lane">
    return
  }

  // Where the lanes of each half are equal already, a broadcast and a scalar do.
  // CHECK-LABEL: func.func @all_lanes
  // CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 32 : i64}
  // CHECK-NOT: "ck.half"
  // CHECK: return
  func.func @all_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
    %t = "ck.splat"(%x) : (f32) -> !ck.tile<[1, 64], f32, "d0: 1@lane, d1: 64@lane">
    %0 = "ck.reduce"(%t) ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
      : (!ck.tile<[1, 64], f32, "d0: 1@lane, d1: 64@lane">) -> !ck.tile<[1], f32, "r: 64@lane, d0: 1@lane">
    return
  }
}
