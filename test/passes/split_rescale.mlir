// ck.rescale becomes one operation of all registers: with one factor where a thread's registers belong to one row, else
// with one for each.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!one = !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
!of_one = !ck.tile<[64], f32, "d0: 64@lane">
!two = !ck.tile<[128, 2], f32, "d0: 64@lane 2@y0, d1: 2@y1">
!of_two = !ck.tile<[128], f32, "d0: 64@lane 2@y0">

// CHECK-LABEL: func.func @rows
func.func @rows(%x: f32, %f: f32) attributes {ck.waves = 1 : i32} {
  %tile = "ck.splat"(%x) : (f32) -> !one
  %factors = "ck.splat"(%f) : (f32) -> !of_one
  // CHECK: "ck.rescale_vector"({{.*}}) : (vector<4xf32>, vector<1xf32>) -> vector<4xf32>
  %0 = "ck.rescale"(%tile, %factors) : (!one, !of_one) -> !one
  %taller = "ck.splat"(%x) : (f32) -> !two
  %more = "ck.splat"(%f) : (f32) -> !of_two
  // CHECK: "ck.rescale_vector"({{.*}}) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  // CHECK-NOT: ck.rescale
  %1 = "ck.rescale"(%taller, %more) : (!two, !of_two) -> !two
  return
}
