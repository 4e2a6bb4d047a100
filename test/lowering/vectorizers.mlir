// LLVM's vectorizers leave kernels without matrix instructions alone, with loops or without: they take up to a tenth of
// LLVM's time for such kernels, and find nothing. Kernels of one block they leave alone in any case.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @rows
  // CHECK-SAME: passthrough = [{{.*}}"noimplicitfloat"]
  func.func @rows(%s: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    cf.br ^bb1
  ^bb1:
    %sum = arith.addf %s, %s : vector<2xf32>
    return
  }

  // CHECK-LABEL: llvm.func @one_block
  // CHECK-SAME: passthrough = [{{.*}}"noimplicitfloat"]
  func.func @one_block(%a: vector<4xf16>, %c: vector<16xf32>) attributes {ck.waves = 1 : i32} {
    %product = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    return
  }

  // CHECK-LABEL: llvm.func @products
  // CHECK-NOT: noimplicitfloat
  // CHECK: rocdl.mfma
  func.func @products(%a: vector<4xf16>, %c: vector<16xf32>) attributes {ck.waves = 1 : i32} {
    cf.br ^bb1
  ^bb1:
    %product = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    return
  }
}
