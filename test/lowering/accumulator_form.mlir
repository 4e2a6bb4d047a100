// More than 128 accumulators that only matrix instructions touch lie in accumulation registers: assembly, joined at both
// ends, with wait states of its own where what is multiplied is computed or has parts of registers. Fewer, those of more than 4 waves, and those that something else uses in the loop stay with LLVM.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!acc = vector<16xf32>
!frag = vector<4xf16>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @many
  // CHECK-SAME: ck.accumulation_registers
  // CHECK-SAME: passthrough = [{{.*}}["amdgpu-sched-strategy", "iterative-minreg"]]
  // Zeros become accumulators once, in front of the loop and of the way around it: products of zeros.
  // CHECK-COUNT-1: llvm.mlir.zero : vector<4xf16>
  // CHECK: llvm.inline_asm has_side_effects "s_nop 1\0Av_mfma_f32_32x32x8f16 $0, $9, $9, 0\0A
  // CHECK-SAME: \0Av_mfma_f32_32x32x8f16 $8, $9, $9, 0", "=a,=a,=a,=a,=a,=a,=a,=a,=a,v"
  // CHECK: llvm.inline_asm "v_mfma_f32_32x32x8f16 $0, $1, $2, $0", "=a,v,v,0"
  // CHECK-NOT: rocdl.mfma
  // CHECK-NOT: "s_nop 1"
  // CHECK: llvm.inline_asm "s_nop 15\0As_nop 15"
  func.func @many(%a: !frag, %b: !frag, %some: i1, %p: !llvm.ptr<1>) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.cond_br %some, ^loop(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^loop(%c0: !acc, %c1: !acc, %c2: !acc, %c3: !acc, %c4: !acc, %c5: !acc, %c6: !acc, %c7: !acc, %c8: !acc):
    %d0 = "ck.mfma"(%a, %b, %c0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d1 = "ck.mfma"(%a, %b, %c1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d2 = "ck.mfma"(%a, %b, %c2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d3 = "ck.mfma"(%a, %b, %c3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d4 = "ck.mfma"(%a, %b, %c4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d5 = "ck.mfma"(%a, %b, %c5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d6 = "ck.mfma"(%a, %b, %c6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d7 = "ck.mfma"(%a, %b, %c7) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d8 = "ck.mfma"(%a, %b, %c8) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^loop(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^end(%r0: !acc, %r1: !acc, %r2: !acc, %r3: !acc, %r4: !acc, %r5: !acc, %r6: !acc, %r7: !acc, %r8: !acc):
    %s = arith.addf %r0, %r8 : !acc
    return
  }

  // CHECK-LABEL: llvm.func @few
  // CHECK-NOT: ck.accumulation_registers
  // CHECK: rocdl.mfma
  func.func @few(%a: !frag, %b: !frag, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.br ^loop(%z : !acc)
  ^loop(%c0: !acc):
    %d0 = "ck.mfma"(%a, %b, %c0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^loop(%d0 : !acc), ^end
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @rescaled
  // CHECK-NOT: ck.accumulation_registers
  // CHECK: rocdl.mfma
  func.func @rescaled(%a: !frag, %b: !frag, %some: i1, %by: !acc) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.br ^loop(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^loop(%c0: !acc, %c1: !acc, %c2: !acc, %c3: !acc, %c4: !acc, %c5: !acc, %c6: !acc, %c7: !acc, %c8: !acc):
    %d0 = "ck.mfma"(%a, %b, %c0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d1 = "ck.mfma"(%a, %b, %c1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %e1 = arith.mulf %d1, %by : !acc
    cf.cond_br %some, ^loop(%d0, %e1, %c2, %c3, %c4, %c5, %c6, %c7, %c8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @computed
  // CHECK: llvm.inline_asm "s_nop 1\0Av_mfma_f32_32x32x8f16 $0, $1, $2, $0"
  // CHECK: llvm.inline_asm "s_nop 1\0Av_mfma_f32_32x32x8f16 $0, $1, $2, $0"
  // CHECK: llvm.inline_asm "v_mfma_f32_32x32x8f16 $0, $1, $2, $0"
  // CHECK-NOT: "s_nop 1\0A
  func.func @computed(%a: !frag, %b: !frag, %one: vector<1xf16>, %three: vector<3xf16>, %two: vector<2xf16>, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.br ^loop(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^loop(%c0: !acc, %c1: !acc, %c2: !acc, %c3: !acc, %c4: !acc, %c5: !acc, %c6: !acc, %c7: !acc, %c8: !acc):
    %sum = arith.addf %a, %b : !frag
    %pieces = vector.shuffle %one, %three [0, 1, 2, 3] : vector<1xf16>, vector<3xf16>
    %halves = vector.shuffle %two, %two [0, 1, 2, 3] : vector<2xf16>, vector<2xf16>
    %d0 = "ck.mfma"(%sum, %b, %c0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d1 = "ck.mfma"(%pieces, %b, %c1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d2 = "ck.mfma"(%halves, %b, %c2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d3 = "ck.mfma"(%a, %b, %c3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d4 = "ck.mfma"(%a, %b, %c4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d5 = "ck.mfma"(%a, %b, %c5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d6 = "ck.mfma"(%a, %b, %c6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d7 = "ck.mfma"(%a, %b, %c7) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d8 = "ck.mfma"(%a, %b, %c8) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^loop(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end
  ^end:
    return
  }
}
