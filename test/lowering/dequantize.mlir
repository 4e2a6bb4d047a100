// Elements of 4 bits become what they stand for with the rounding that the type has: f16 by mixed multiply-adds.

// RUN: sed 's/CHIP/gfx942/; s/xF8>/xf8E4M3FNUZ>/' %s > %t.942
// RUN: ckmlir-opt %t.942 --ck-lower-fragments | filecheck %s --check-prefixes CHECK,GFX942
// RUN: sed 's/CHIP/gfx950/; s/xF8>/xf8E4M3FN>/' %s > %t.950
// RUN: ckmlir-opt %t.950 --ck-lower-fragments | filecheck %s --check-prefixes CHECK,GFX950

module attributes {ck.target = "CHIP"} {
  // The sign is turned around by what leaves every two integers alone, which stay in place as denormals.
  // CHECK-LABEL: llvm.func @halves
  // CHECK-NOT: arith.xori
  // CHECK-COUNT-4: v_bfi_b32 $0, $1, $2, $3
  // CHECK-NOT: v_bfi_b32
  // CHECK-NOT: arith.andi
  // CHECK-COUNT-2: v_fma_mixlo_f16 $0, $1, $2, $3 op_sel:[0,0,0] op_sel_hi:[1,0,0]\0Av_fma_mixhi_f16 $0, $4, $5, $6 op_sel:[0,0,0] op_sel_hi:[1,0,0]
  // CHECK-COUNT-2: v_fma_mixlo_f16 $0, $1, $2, $3 op_sel:[1,0,0] op_sel_hi:[1,0,0]\0Av_fma_mixhi_f16 $0, $4, $5, $6 op_sel:[1,0,0] op_sel_hi:[1,0,0]
  // CHECK-NOT: cvt
  // CHECK: llvm.return
  func.func @halves(%x: vector<4xi8>, %s: vector<8xf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "i4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<4xi8>, vector<8xf16>) -> vector<8xf16>
    return
  }

  // Without a sign nothing is turned around.
  // CHECK-LABEL: llvm.func @unsigned
  // CHECK-NOT: arith.xori
  // CHECK-COUNT-4: v_fma_mixlo_f16
  // CHECK: llvm.return
  func.func @unsigned(%x: vector<4xi8>, %s: vector<8xf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "u4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<4xi8>, vector<8xf16>) -> vector<8xf16>
    return
  }

  // A scale of bf16, limited where it is multiplied by a factor of ours, times 65535 is exact: two instructions for two elements. Where gfx950
  // rounds by one, integers are read as 8 more, two at once, and 8 scales taken away.
  // CHECK-LABEL: llvm.func @bf16
  // GFX942-COUNT-8: llvm.call_intrinsic "llvm.amdgcn.cvt.off.f32.i4"
  // GFX942-COUNT-8: llvm.call_intrinsic "llvm.amdgcn.fmed3"
  // GFX950-NOT: fmed3
  // GFX942: math.fma
  // GFX950-COUNT-2: v_bfi_b32
  // GFX950-NOT: cvt.off
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.f32.fp8
  // GFX950: arith.truncf
  // CHECK: llvm.return
  func.func @bf16(%x: vector<4xi8>, %s: vector<8xbf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "i4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<4xi8>, vector<8xbf16>) -> vector<8xbf16>
    return
  }

  // With zero points one multiply-add has both, and rounds.
  // CHECK-LABEL: llvm.func @zeros
  // CHECK-COUNT-8: llvm.call_intrinsic "llvm.amdgcn.cvt.off.f32.i4"
  // CHECK-COUNT-4: v_fma_mixlo_f16 $0, $1, $2, $3\0Av_fma_mixhi_f16 $0, $4, $5, $6"
  // CHECK-NOT: truncf
  // CHECK: llvm.return
  func.func @zeros(%x: vector<4xi8>, %z: vector<8xf16>, %s: vector<8xf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %z, %s) {format = "i4", operandSegmentSizes = array<i32: 1, 1, 1>} : (vector<4xi8>, vector<8xf16>, vector<8xf16>) -> vector<8xf16>
    return
  }

  // Without a sign the integers themselves are read, less scales times zero points.
  // CHECK-LABEL: llvm.func @unsigned_zeros
  // CHECK-COUNT-4: arith.andi
  // CHECK-NOT: cvt
  // CHECK: arith.negf
  // CHECK-COUNT-4: v_fma_mixlo_f16 $0, $1, $2, $3 op_sel:{{.*}}v_fma_mixhi_f16
  // CHECK-NOT: cvt
  // CHECK: llvm.return
  func.func @unsigned_zeros(%x: vector<4xi8>, %z: vector<8xf16>, %s: vector<8xf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %z, %s) {format = "u4", operandSegmentSizes = array<i32: 1, 1, 1>} : (vector<4xi8>, vector<8xf16>, vector<8xf16>) -> vector<8xf16>
    return
  }

  // Bytes from 0 to 15 are denormals of fp8, of which two become f32 at once, times the number of them in 1 where the chip
  // has scaled conversions; elements are put in order at the end.
  // CHECK-LABEL: llvm.func @pairs
  // CHECK-COUNT-2: v_and_b32 $0, 0xf0f0f0f
  // CHECK-NOT: v_and_b32
  // GFX942-COUNT-4: rocdl.cvt.pk.f32.fp8
  // GFX942-NOT: rocdl.cvt.pk.f32.fp8
  // GFX942: dense<1.024000e+03> : vector<8xf32>
  // GFX950: arith.constant 5.120000e+02 : f32
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.f32.fp8
  // GFX950-NOT: fmed3
  // CHECK-COUNT-4: math.fma {{.*}} : vector<2xf32>
  // CHECK: llvm.return
  func.func @pairs(%x: vector<4xi8>, %z: vector<8xbf16>, %s: vector<8xbf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %z, %s) {format = "u4", operandSegmentSizes = array<i32: 1, 1, 1>} : (vector<4xi8>, vector<8xbf16>, vector<8xbf16>) -> vector<8xbf16>
    return
  }

  // In 8-bit floats zero points are integers, so that integers with a sign are read as 8 more, two at once, as well.
  // CHECK-LABEL: llvm.func @float_octets
  // CHECK-COUNT-2: v_bfi_b32
  // CHECK-NOT: cvt.off
  // GFX942-COUNT-4: rocdl.cvt.pk.f32.fp8
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.f32.fp8
  // CHECK-COUNT-4: math.fma {{.*}} : vector<2xf32>
  // CHECK-COUNT-4: rocdl.cvt.pk.fp8.f32
  // CHECK: llvm.return
  func.func @float_octets(%x: vector<4xi8>, %z: vector<8xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %z) {format = "i4", operandSegmentSizes = array<i32: 1, 1, 0>} : (vector<4xi8>, vector<8xi8>) -> vector<8xF8>
    return
  }

  // i8 less zero points: four bytes an addition.
  // CHECK-LABEL: llvm.func @octets
  // CHECK-COUNT-2: arith.addi
  // CHECK-NOT: arith.addi
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK: llvm.return
  func.func @octets(%x: vector<4xi8>, %z: vector<8xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %z) {format = "u4", operandSegmentSizes = array<i32: 1, 1, 0>} : (vector<4xi8>, vector<8xi8>) -> vector<8xi8>
    return
  }

  // fp4 of a word become f16 by a table where the chip has no instruction, one in either half of four registers, and
  // multiply-adds read these halves.
  // CHECK-LABEL: llvm.func @floats
  // GFX942-COUNT-6: llvm.call_intrinsic "llvm.amdgcn.perm"
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.f32.fp4
  // GFX942-COUNT-4: v_fma_mixlo_f16 $0, $1, $2, $3 op_sel:[0,0,0] op_sel_hi:[1,0,0]\0Av_fma_mixhi_f16 $0, $4, $5, $6 op_sel:[1,0,0] op_sel_hi:[1,0,0]
  // GFX950-COUNT-4: v_fma_mixlo_f16 $0, $1, $2, $3\0Av_fma_mixhi_f16 $0, $4, $5, $6"
  // CHECK: llvm.return
  func.func @floats(%x: vector<4xi8>, %s: vector<8xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<4xi8>, vector<8xf32>) -> vector<8xf16>
    return
  }

  // Times powers of two they are exact in bf16, so that nothing is rounded: two products' upper halves are the pair.
  // CHECK-LABEL: llvm.func @powers
  // GFX942-COUNT-8: v_fma_mix_f32 $0, $1, $2, $3
  // GFX942-NOT: math.fma
  // GFX942-COUNT-4: llvm.call_intrinsic "llvm.amdgcn.perm"
  // GFX950: arith.truncf
  // CHECK: llvm.return
  func.func @powers(%x: vector<4xi8>, %codes: vector<8xi8>) attributes {ck.waves = 1 : i32} {
    %s = arith.bitcast %codes : vector<8xi8> to vector<8xf8E8M0FNU>
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<4xi8>, vector<8xf8E8M0FNU>) -> vector<8xbf16>
    return
  }

  // Where one power of two is that of all, gfx950 multiplies by it as it converts; what is NaN is put beside.
  // CHECK-LABEL: llvm.func @power
  // GFX950-NOT: arith.mulf
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.bf16.fp4
  // GFX950-NOT: rocdl.cvt
  // GFX942-COUNT-8: v_fma_mix_f32
  // CHECK: llvm.return
  func.func @power(%x: vector<4xi8>, %code: i8) attributes {ck.waves = 1 : i32} {
    %one = arith.bitcast %code : i8 to f8E8M0FNU
    %s = vector.broadcast %one : f8E8M0FNU to vector<8xf8E8M0FNU>
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<4xi8>, vector<8xf8E8M0FNU>) -> vector<8xbf16>
    return
  }

  // Times other scales they are rounded by two packed instructions.
  // CHECK-LABEL: llvm.func @rounded
  // GFX942-COUNT-8: v_fma_mix_f32
  // GFX942-COUNT-8: math.fma
  // CHECK: llvm.return
  func.func @rounded(%x: vector<4xi8>, %s: vector<8xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.dequantize_fragment"(%x, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 0, 1>} : (vector<4xi8>, vector<8xf32>) -> vector<8xbf16>
    return
  }
}
