// A wave asks whether any of its lanes has another factor than 1, or none that is a number, and branches around the
// multiplications where none has.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @one
  // CHECK: %[[HERE:.*]] = arith.cmpf une, %[[FACTOR:.*]], %{{.*}} : f32
  // CHECK: %[[LANES:.*]] = rocdl.ballot %[[HERE]] : i64
  // CHECK: %[[SOME:.*]] = arith.cmpi ne, %[[LANES]], %{{.*}} : i64
  // CHECK: cf.cond_br %[[SOME]], ^[[MULTIPLY:.*]], ^[[REST:.*]](%[[VECTOR:.*]] : vector<4xf32>)
  // CHECK: ^[[MULTIPLY]]:
  // CHECK: %[[ALIKE:.*]] = vector.broadcast %[[FACTOR]] : f32 to vector<4xf32>
  // CHECK: %[[PRODUCT:.*]] = arith.mulf %[[VECTOR]], %[[ALIKE]] : vector<4xf32>
  // CHECK: cf.br ^[[REST]](%[[PRODUCT]] : vector<4xf32>)
  func.func @one(%v: vector<4xf32>, %f: vector<1xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.rescale_vector"(%v, %f) : (vector<4xf32>, vector<1xf32>) -> vector<4xf32>
    return
  }

  // CHECK-LABEL: llvm.func @each
  // CHECK: %[[FIRST:.*]] = arith.cmpf une
  // CHECK: %[[SECOND:.*]] = arith.cmpf une
  // CHECK: %[[EITHER:.*]] = arith.ori %[[FIRST]], %[[SECOND]] : i1
  // CHECK: rocdl.ballot %[[EITHER]] : i64
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : vector<2xf32>
  func.func @each(%v: vector<2xf32>, %f: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.rescale_vector"(%v, %f) : (vector<2xf32>, vector<2xf32>) -> vector<2xf32>
    return
  }
}
