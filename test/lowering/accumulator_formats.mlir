// Operands in two loads, one behind the other, count as loaded; the formats are part of the instruction's text.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

// CHECK-LABEL: llvm.func @formats
// CHECK-SAME: ck.accumulation_registers
// CHECK: v_mfma_f32_32x32x64_f8f6f4 $8, $9, $9, 0 cbsz:0 blgp:1", "=a,=a,=a,=a,=a,=a,=a,=a,=a,v"
// CHECK: llvm.inline_asm "v_mfma_f32_32x32x64_f8f6f4 $0, $1, $2, $0 cbsz:0 blgp:1", "=a,v,v,0"
!acc = vector<16xf32>
!wide = vector<32xi8>
module attributes {ck.target = "gfx950"} {
  func.func @formats(%low: vector<16xi8>, %high: vector<16xi8>, %b: !wide, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.br ^loop(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^loop(%c0: !acc, %c1: !acc, %c2: !acc, %c3: !acc, %c4: !acc, %c5: !acc, %c6: !acc, %c7: !acc, %c8: !acc):
    %whole = vector.shuffle %low, %high [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31] : vector<16xi8>, vector<16xi8>
    %d0 = "ck.mfma"(%whole, %b, %c0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d1 = "ck.mfma"(%whole, %b, %c1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d2 = "ck.mfma"(%whole, %b, %c2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d3 = "ck.mfma"(%whole, %b, %c3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d4 = "ck.mfma"(%whole, %b, %c4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d5 = "ck.mfma"(%whole, %b, %c5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d6 = "ck.mfma"(%whole, %b, %c6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d7 = "ck.mfma"(%whole, %b, %c7) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    %d8 = "ck.mfma"(%whole, %b, %c8) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x64.f8f6f4.fp8.bf8"} : (!wide, !wide, !acc) -> !acc
    cf.cond_br %some, ^loop(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^end(%r0: !acc, %r1: !acc, %r2: !acc, %r3: !acc, %r4: !acc, %r5: !acc, %r6: !acc, %r7: !acc, %r8: !acc):
    %s = arith.addf %r0, %r8 : !acc
    return
  }
}
