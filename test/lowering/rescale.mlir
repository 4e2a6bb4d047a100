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

  // Vectors that were joined come by the branch one by one, and whoever takes the elements of one takes that.
  // CHECK-LABEL: llvm.func @joined
  // CHECK: cf.cond_br %{{.*}}, ^[[MULTIPLY:.*]], ^[[REST:.*]](%[[A:.*]], %[[B:.*]], %[[A]], %[[C:.*]] : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>)
  // CHECK: ^[[MULTIPLY]]:
  // CHECK-COUNT-4: arith.mulf %{{.*}}, %{{.*}} : vector<4xf32>
  // CHECK: cf.br ^[[REST]](%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>)
  // CHECK: ^[[REST]](%{{.*}}: vector<4xf32>, %[[SECOND:.*]]: vector<4xf32>, %{{.*}}: vector<4xf32>, %[[LAST:.*]]: vector<4xf32>):
  // CHECK: %[[HALF:.*]] = vector.extract_strided_slice %[[LAST]] {offsets = [2], sizes = [2], strides = [1]}
  // CHECK: %[[WHOLE:.*]] = vector.shuffle {{.*}} : vector<8xf32>, vector<8xf32>
  // CHECK: arith.addf %[[SECOND]], %[[LAST]]
  // CHECK: arith.negf %[[HALF]]
  // CHECK: %[[ACROSS:.*]] = vector.extract_strided_slice %[[WHOLE]] {offsets = [6], sizes = [4], strides = [1]}
  // CHECK: arith.negf %[[ACROSS]]
  func.func @joined(%a: vector<4xf32>, %b: vector<4xf32>, %c: vector<4xf32>, %f: vector<1xf32>)
      attributes {ck.waves = 1 : i32} {
    %left = vector.shuffle %a, %b [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xf32>, vector<4xf32>
    %right = vector.shuffle %a, %c [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xf32>, vector<4xf32>
    %all = vector.shuffle %left, %right [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] : vector<8xf32>, vector<8xf32>
    %0 = "ck.rescale_vector"(%all, %f) : (vector<16xf32>, vector<1xf32>) -> vector<16xf32>
    %second = vector.extract_strided_slice %0 {offsets = [4], sizes = [4], strides = [1]} : vector<16xf32> to vector<4xf32>
    %last = vector.extract_strided_slice %0 {offsets = [12], sizes = [4], strides = [1]} : vector<16xf32> to vector<4xf32>
    %sum = arith.addf %second, %last : vector<4xf32>
    %half = vector.extract_strided_slice %0 {offsets = [14], sizes = [2], strides = [1]} : vector<16xf32> to vector<2xf32>
    %negative = arith.negf %half : vector<2xf32>
    %across = vector.extract_strided_slice %0 {offsets = [6], sizes = [4], strides = [1]} : vector<16xf32> to vector<4xf32>
    %other = arith.negf %across : vector<4xf32>
    return
  }
}
