// Tiles that a branch gives, or that a loop with a condition carries, become their fragments; a tile of one element that
// all lanes hold becomes a scalar.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!tile = !ck.tile<[128], f32, "d0: 64@lane 2@y0">
!one = !ck.tile<[1], f32, "r: 64@lane, d0: 1">

// CHECK-LABEL: func.func @branch
// CHECK: %[[GIVEN:.*]]:2 = scf.if %{{.*}} -> (vector<2xf32>, i32) {
// CHECK: %[[YES:.*]] = vector.broadcast %{{.*}} : f32 to vector<2xf32>
// CHECK: scf.yield %[[YES]], %{{.*}} : vector<2xf32>, i32
// CHECK: } else {
// CHECK: scf.yield %{{.*}}, %{{.*}} : vector<2xf32>, i32
// CHECK: } {ck.stage = "math"}
// CHECK: arith.addf %[[GIVEN]]#0, %{{.*}} : vector<2xf32>
// CHECK: arith.addi %[[GIVEN]]#1, %{{.*}} : i32
func.func @branch(%x: f32, %n: i32, %c: i1) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !tile
  %r:2 = scf.if %c -> (!tile, i32) {
    %1 = "ck.splat"(%x) : (f32) -> !tile
    scf.yield %1, %n : !tile, i32
  } else {
    scf.yield %t, %n : !tile, i32
  } {ck.stage = "math"}
  %s = "ck.map"() ({
    %a = "ck.element"(%r#0) : (!tile) -> f32
    %b = arith.addf %a, %x : f32
    "ck.yield"(%b) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !tile
  %m = arith.addi %r#1, %n : i32
  return
}

// What is handed on to the body is what the condition's block says: another order here than what is carried.
// CHECK-LABEL: func.func @while
// CHECK: %[[START:.*]] = vector.broadcast %{{.*}} : f32 to vector<2xf32>
// CHECK: scf.while (%[[T:.*]] = %[[START]], %[[N:.*]] = %{{.*}}) : (vector<2xf32>, i32) -> (i32, vector<2xf32>) {
// CHECK: scf.condition(%{{.*}}) %[[N]], %[[T]] : i32, vector<2xf32>
// CHECK: } do {
// CHECK: ^bb0(%[[M:.*]]: i32, %[[U:.*]]: vector<2xf32>):
// CHECK: %[[SUM:.*]] = arith.addf %[[U]], %[[U]] : vector<2xf32>
// CHECK: scf.yield %[[SUM]], %[[M]] : vector<2xf32>, i32
func.func @while(%x: f32, %n: i32, %c: i1) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !tile
  %1:2 = scf.while (%t = %0, %k = %n) : (!tile, i32) -> (i32, !tile) {
    scf.condition(%c) %k, %t : i32, !tile
  } do {
  ^bb0(%m: i32, %u: !tile):
    %2 = "ck.map"() ({
      %a = "ck.element"(%u) : (!tile) -> f32
      %s = arith.addf %a, %a : f32
      "ck.yield"(%s) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) : () -> !tile
    scf.yield %2, %m : !tile, i32
  }
  return
}

// CHECK-LABEL: func.func @uniform
// CHECK: %[[LANE:.*]] = vector.extract %{{.*}}[0] : f32 from vector<1xf32>
// CHECK: %[[ALL:.*]] = "ck.first_lane"(%[[LANE]]) {copies} : (f32) -> f32
// CHECK: return %[[ALL]]
func.func @uniform(%x: f32) -> f32 attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !one
  %1 = "ck.uniform"(%0) : (!one) -> f32
  return %1 : f32
}
