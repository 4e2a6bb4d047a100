// In a kernel in pieces two f32 become f16 as two products, by themselves or with a hidden 1, that are rounded: LLVM makes
// one instruction of each, and both write to one register, which empty assembly joins. gfx950 has an instruction for
// both, and kernels that LLVM's vectorizers look at convert as ever.

// RUN: ckmlir-opt %s --split-input-file --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @product
  // CHECK-DAG: %[[LEFT:.*]] = vector.extract %arg0[0]
  // CHECK-DAG: %[[RIGHT:.*]] = vector.extract %arg1[0]
  // CHECK: %[[SUM:.*]] = arith.mulf %[[LEFT]], %[[RIGHT]] : f32
  // CHECK: arith.truncf %[[SUM]] : f32 to f16
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
  // CHECK: arith.truncf
  // CHECK: llvm.inline_asm "", "=v,0" %{{.*}} : (i32) -> i32
  // CHECK: llvm.return
  func.func @product(%a: vector<2xf32>, %b: vector<2xf32>) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %product = arith.mulf %a, %b : vector<2xf32>
    %half = "ck.convert"(%product) : (vector<2xf32>) -> vector<2xf16>
    return
  }

  // Where something else takes the product, it is converted as any other number.
  // CHECK-LABEL: llvm.func @taken
  // CHECK: %[[PRODUCT:.*]] = arith.mulf %arg0, %arg1
  // CHECK-DAG: %[[NUMBER:.*]] = vector.extract %[[PRODUCT]][0]
  // CHECK-DAG: %[[ONE:.*]] = llvm.inline_asm "", "=s,0" %{{.*}} : (f32) -> f32
  // CHECK: arith.mulf %[[NUMBER]], %[[ONE]] : f32
  // CHECK: arith.mulf %{{.*}}, %[[ONE]] : f32
  // CHECK: llvm.return
  func.func @taken(%a: vector<2xf32>, %b: vector<2xf32>) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %product = arith.mulf %a, %b : vector<2xf32>
    %half = "ck.convert"(%product) : (vector<2xf32>) -> vector<2xf16>
    %sum = arith.addf %product, %b : vector<2xf32>
    return
  }

  // CHECK-LABEL: llvm.func @others
  // CHECK-NOT: arith.mulf
  // CHECK: llvm.return
  func.func @others(%a: vector<2xf64>, %b: vector<1xf32>, %c: vector<2xf32>) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %double = "ck.convert"(%a) : (vector<2xf64>) -> vector<2xf16>
    %single = "ck.convert"(%b) : (vector<1xf32>) -> vector<1xf16>
    %long = "ck.convert"(%c) : (vector<2xf32>) -> vector<2xf64>
    return
  }

  // CHECK-LABEL: llvm.func @whole
  // CHECK-NOT: arith.mulf
  // CHECK: llvm.return
  func.func @whole(%a: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    %half = "ck.convert"(%a) : (vector<2xf32>) -> vector<2xf16>
    return
  }
}

// -----

module attributes {ck.target = "gfx950"} {
  // CHECK-LABEL: llvm.func @packed
  // CHECK-NOT: arith.mulf
  // CHECK: llvm.return
  func.func @packed(%a: vector<2xf32>) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %half = "ck.convert"(%a) : (vector<2xf32>) -> vector<2xf16>
    return
  }
}
