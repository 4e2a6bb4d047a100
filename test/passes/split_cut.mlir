// ck.cut becomes one operation of all registers, which says in which column behind the lane's own each lies: with one
// bound where a thread's registers belong to one row, else with one for each.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!one = !ck.tile<[32, 8], f32, "d0: 32@lane.1, d1: 2@y0 2@lane.0 2@y1">
!of_one = !ck.tile<[32], i32, "r: 2@lane.0, d0: 32@lane.1">
!two = !ck.tile<[128, 2], f32, "d0: 64@lane 2@y0, d1: 2@y1">
!of_two = !ck.tile<[128], i32, "d0: 64@lane 2@y0">

// CHECK-LABEL: func.func @rows
func.func @rows(%x: f32, %b: i32) attributes {ck.waves = 1 : i32} {
  %tile = "ck.splat"(%x) : (f32) -> !one
  %bounds = "ck.splat"(%b) : (i32) -> !of_one
  // CHECK: %[[LANE:.*]] = "ck.thread_coordinate"() {axis = 1
  // CHECK: "ck.cut_vector"({{.*}}, {{.*}}, %[[LANE]]) {columns = array<i32: 0, 1, 4, 5>, front, other = 1.000000e+00 : f32} : (vector<4xf32>, vector<1xi32>, i32)
  %0 = "ck.cut"(%tile, %bounds) {front, other = 1.0 : f32} : (!one, !of_one) -> !one
  %taller = "ck.splat"(%x) : (f32) -> !two
  %more = "ck.splat"(%b) : (i32) -> !of_two
  // CHECK: "ck.cut_vector"({{.*}}) {columns = array<i32: 0, 1, 0, 1>, other = 1.000000e+00 : f32} : (vector<4xf32>, vector<4xi32>, i32)
  // CHECK-NOT: ck.cut
  %1 = "ck.cut"(%taller, %more) {other = 1.0 : f32} : (!two, !of_two) -> !two
  return
}
