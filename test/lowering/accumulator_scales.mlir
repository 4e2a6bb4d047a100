// Matrix instructions with block scales take accumulation registers too: scales are two more registers, of which bytes
// are chosen by their lower bits and their upper ones; what vector arithmetic makes of scales is waited for.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

// CHECK-LABEL: llvm.func @scales
// CHECK-SAME: ck.accumulation_registers
// CHECK: v_mfma_f32_32x32x64_f8f6f4 $8, $9, $9, 0 cbsz:4 blgp:4", "=a,=a,=a,=a,=a,=a,=a,=a,=a,v"
// CHECK: llvm.inline_asm "v_mfma_scale_f32_32x32x64_f8f6f4 $0, $1, $2, $0, $4, $5 op_sel:[1,0,0] op_sel_hi:[0,1,0] cbsz:4 blgp:4", "=a,v,v,0,v,v"
// CHECK: llvm.inline_asm "v_mfma_scale_f32_32x32x64_f8f6f4 $0, $1, $2, $0, $4, $5 op_sel:[1,0,0] op_sel_hi:[1,0,0] cbsz:4 blgp:4", "=a,v,v,0,v,v"
// CHECK: llvm.inline_asm "s_nop 1\0Av_mfma_scale_f32_32x32x64_f8f6f4
!acc = vector<16xf32>
!quarter = vector<16xi8>
!four = vector<4xf8E8M0FNU>
module attributes {ck.target = "gfx950"} {
  func.func @scales(%a: !quarter, %b: !quarter, %u: vector<4xi8>, %v: vector<4xi8>, %pair: vector<2xi8>, %some: i1) attributes {ck.waves = 4 : i32} {
    %s = arith.bitcast %u : vector<4xi8> to !four
    %t = arith.bitcast %v : vector<4xi8> to !four
    %z = arith.constant dense<0.0> : !acc
    cf.br ^loop(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^loop(%c0: !acc, %c1: !acc, %c2: !acc, %c3: !acc, %c4: !acc, %c5: !acc, %c6: !acc, %c7: !acc, %c8: !acc):
    %bytes = vector.shuffle %pair, %pair [0, 1, 2, 3] : vector<2xi8>, vector<2xi8>
    %made = arith.bitcast %bytes : vector<4xi8> to !four
    %d0 = "ck.mfma"(%a, %b, %c0, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 1, 2>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d1 = "ck.mfma"(%a, %b, %c1, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 3, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d2 = "ck.mfma"(%a, %b, %c2, %made, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 0, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d3 = "ck.mfma"(%a, %b, %c3, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 0, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d4 = "ck.mfma"(%a, %b, %c4, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 0, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d5 = "ck.mfma"(%a, %b, %c5, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 0, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d6 = "ck.mfma"(%a, %b, %c6, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 0, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d7 = "ck.mfma"(%a, %b, %c7, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 0, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    %d8 = "ck.mfma"(%a, %b, %c8, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.32x32x64.f8f6f4.fp4.fp4", scale_bytes = array<i32: 0, 0>} : (!quarter, !quarter, !acc, !four, !four) -> !acc
    cf.cond_br %some, ^loop(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^end(%r0: !acc, %r1: !acc, %r2: !acc, %r3: !acc, %r4: !acc, %r5: !acc, %r6: !acc, %r7: !acc, %r8: !acc):
    %sum = arith.addf %r0, %r8 : !acc
    return
  }
}
