// A kernel whose order is given piece by piece asks LLVM for level 1, for no vectorizers and no IEEE mode; others ask for
// nothing.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @pieces
  // CHECK-SAME: ck.llvm_level = 1 : i32
  // CHECK-SAME: passthrough = [{{.*}}"noimplicitfloat", ["amdgpu-ieee", "false"]]
  func.func @pieces() attributes {ck.waves = 1 : i32, ck.in_pieces} {
    cf.br ^bb1
  ^bb1:
    return
  }

  // CHECK-LABEL: llvm.func @whole
  // CHECK-NOT: ck.llvm_level
  // CHECK-NOT: noimplicitfloat
  // CHECK: llvm.return
  func.func @whole(%a: vector<4xf16>, %c: vector<16xf32>) attributes {ck.waves = 1 : i32} {
    cf.br ^bb1
  ^bb1:
    %product = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    return
  }
}
