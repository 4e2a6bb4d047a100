// fp4 times one scale become bf16 by tables of the products of their magnitudes, where there are elements enough for one scale.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // Eight products, whose upper halves are bf16, and four words of their bytes; then 17 instructions for eight elements, ten of them v_perm_b32.
  // CHECK-LABEL: llvm.func @power
  // CHECK: "llvm.ldexp"
  // CHECK: arith.mulf {{.*}} : vector<8xf32>
  // CHECK-NOT: arith.mulf
  // CHECK-NOT: v_fma_mix
  // CHECK-COUNT-28: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-NOT: llvm.call_intrinsic
  // CHECK: llvm.return
  func.func @power(%x: vector<8xi8>, %code: i8) attributes {ck.waves = 1 : i32} {
    %one = arith.bitcast %code : i8 to f8E8M0FNU
    %s = vector.broadcast %one : f8E8M0FNU to vector<16xf8E8M0FNU>
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<8xi8>, vector<16xf8E8M0FNU>) -> vector<16xbf16>
    return
  }

  // Scales with a sign turn those of all elements around; the products of their magnitudes are rounded, eight for all elements.
  // CHECK-LABEL: llvm.func @rounded
  // CHECK-COUNT-2: arith.xori
  // CHECK: math.absf
  // CHECK-COUNT-8: math.fma {{.*}} : vector<2xf32>
  // CHECK-NOT: math.fma
  // CHECK-NOT: v_fma_mix
  // CHECK: llvm.return
  func.func @rounded(%x: vector<8xi8>, %one: f32) attributes {ck.waves = 1 : i32} {
    %s = vector.broadcast %one : f32 to vector<16xf32>
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<8xi8>, vector<16xf32>) -> vector<16xbf16>
    return
  }

  // f16 of one product each take no more instructions.
  // CHECK-LABEL: llvm.func @halves
  // CHECK-COUNT-8: v_fma_mixlo_f16
  // CHECK: llvm.return
  func.func @halves(%x: vector<8xi8>, %one: f32) attributes {ck.waves = 1 : i32} {
    %s = vector.broadcast %one : f32 to vector<16xf32>
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<8xi8>, vector<16xf32>) -> vector<16xf16>
    return
  }
}
