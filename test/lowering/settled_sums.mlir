// Where registers leave room for several waves of a SIMD, sums in blocks with matrix instructions pass through empty
// assembly, which stays in its place; others, and kernels that wish for nothing, are left alone. LLVM is told of the
// wish.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @wishing
  // CHECK-SAME: ck.waves_a_simd = 2 : i32
  // CHECK-SAME: ["amdgpu-waves-per-eu", "2,2"]
  // CHECK: rocdl.mfma.f32.16x16x16f16
  // CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %{{.*}} : vector<4xf32>
  // CHECK-NEXT: %[[SETTLED:.*]] = llvm.inline_asm has_side_effects "", "=v,0" %[[SUM]] : (vector<4xf32>) -> vector<4xf32>
  // CHECK: cf.br ^[[BEHIND:.*]](%[[SETTLED]] : vector<4xf32>)
  // CHECK: ^[[BEHIND]](
  // CHECK: arith.addf
  // CHECK-NOT: llvm.inline_asm
  // CHECK: llvm.return
  func.func @wishing(%a: vector<4xf16>, %b: vector<4xf16>, %c: vector<4xf32>) attributes {ck.waves = 1 : i32, ck.waves_a_simd = 2 : i32} {
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %part = "ck.mfma"(%a, %b, %zero) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %sum = arith.addf %part, %c : vector<4xf32>
    cf.br ^bb1(%sum : vector<4xf32>)
  ^bb1(%total: vector<4xf32>):
    %more = arith.addf %total, %c : vector<4xf32>
    return
  }
}
