// What all lanes hold equally is read from the first into a scalar register; a condition travels as a number.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @first
  // CHECK: rocdl.readfirstlane %{{.*}} : f32
  // CHECK: rocdl.readfirstlane %{{.*}} : i64
  // CHECK: %[[NUMBER:.*]] = arith.extui %{{.*}} : i1 to i32
  // CHECK: %[[FIRST:.*]] = rocdl.readfirstlane %[[NUMBER]] : i32
  // CHECK: arith.trunci %[[FIRST]] : i32 to i1
  func.func @first(%x: f32, %y: i64, %z: i1) attributes {ck.waves = 1 : i32} {
    %0 = "ck.first_lane"(%x) : (f32) -> f32
    %1 = "ck.first_lane"(%y) : (i64) -> i64
    %2 = "ck.first_lane"(%z) : (i1) -> i1
    return
  }
}
