// Accumulators begin where a loop begins. Of ways into a loop and past it only one is taken: there they begin once, in
// the last block that all ways pass. Two loops, one behind the other, take accumulators of their own. Zeros begin as
// products, in front of the first wait of that block, but not where the accumulators of a turn before may still be there;
// a way past all products, taken before that block, has zeros of its own. What is not zero goes through assembly as it is.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!acc = vector<16xf32>
!frag = vector<4xf16>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @behind_one_another
  // CHECK: llvm.inline_asm has_side_effects "s_nop 1\0Av_mfma
  // CHECK-NOT: "s_nop 1\0A
  // CHECK: llvm.inline_asm "v_mfma
  // CHECK: llvm.inline_asm "s_nop 15\0As_nop 15"
  // CHECK: llvm.inline_asm has_side_effects "s_nop 1\0Av_mfma
  // CHECK-NOT: "s_nop 1\0A
  // CHECK: llvm.inline_asm "s_nop 15\0As_nop 15"
  func.func @behind_one_another(%a: !frag, %b: !frag, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.cond_br %some, ^first(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^between(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^first(%c0: !acc, %c1: !acc, %c2: !acc, %c3: !acc, %c4: !acc, %c5: !acc, %c6: !acc, %c7: !acc, %c8: !acc):
    %d0 = "ck.mfma"(%a, %b, %c0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d1 = "ck.mfma"(%a, %b, %c1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d2 = "ck.mfma"(%a, %b, %c2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d3 = "ck.mfma"(%a, %b, %c3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d4 = "ck.mfma"(%a, %b, %c4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d5 = "ck.mfma"(%a, %b, %c5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d6 = "ck.mfma"(%a, %b, %c6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d7 = "ck.mfma"(%a, %b, %c7) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %d8 = "ck.mfma"(%a, %b, %c8) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^first(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^between(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^between(%r0: !acc, %r1: !acc, %r2: !acc, %r3: !acc, %r4: !acc, %r5: !acc, %r6: !acc, %r7: !acc, %r8: !acc):
    %rs = arith.addf %r0, %r8 : !acc
    cf.cond_br %some, ^second(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^second(%e0: !acc, %e1: !acc, %e2: !acc, %e3: !acc, %e4: !acc, %e5: !acc, %e6: !acc, %e7: !acc, %e8: !acc):
    %f0 = "ck.mfma"(%a, %b, %e0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f1 = "ck.mfma"(%a, %b, %e1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f2 = "ck.mfma"(%a, %b, %e2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f3 = "ck.mfma"(%a, %b, %e3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f4 = "ck.mfma"(%a, %b, %e4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f5 = "ck.mfma"(%a, %b, %e5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f6 = "ck.mfma"(%a, %b, %e6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f7 = "ck.mfma"(%a, %b, %e7) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f8 = "ck.mfma"(%a, %b, %e8) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^second(%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end(%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^end(%s0: !acc, %s1: !acc, %s2: !acc, %s3: !acc, %s4: !acc, %s5: !acc, %s6: !acc, %s7: !acc, %s8: !acc):
    %ss = arith.addf %s0, %s8 : !acc
    return
  }

  // CHECK-LABEL: llvm.func @no_zeros
  // CHECK: llvm.inline_asm "s_nop 1", "=a,=a,=a,=a,=a,=a,=a,=a,=a,0,1,2,3,4,5,6,7,8"
  // CHECK: llvm.inline_asm "v_mfma_f32_32x32x8f16 $0, $1, $2, $0"
  func.func @no_zeros(%a: !frag, %b: !frag, %start: !acc, %some: i1) attributes {ck.waves = 4 : i32} {
    cf.br ^loop(%start, %start, %start, %start, %start, %start, %start, %start, %start : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
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
    cf.cond_br %some, ^loop(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^end
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @something_to_add
  // CHECK: cf.cond_br
  // CHECK-NOT: v_mfma
  // CHECK: llvm.load
  // CHECK: llvm.inline_asm has_side_effects "s_nop 1\0Av_mfma
  // CHECK: s.waitcnt
  // CHECK: s.barrier
  // CHECK-NOT: "s_nop 1\0A
  // CHECK: llvm.inline_asm "v_mfma
  // CHECK: llvm.inline_asm has_side_effects "s_nop 1\0Av_mfma
  // CHECK: llvm.inline_asm "s_nop 15\0As_nop 15"
  func.func @something_to_add(%a: !frag, %b: !frag, %any: i1, %some: i1, %p: !llvm.ptr<1>) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.cond_br %any, ^begin, ^end(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^begin:
    %x = llvm.load %p : !llvm.ptr<1> -> !frag
    "ck.wait"() {copies = 0 : i64, lds = 0 : i64} : () -> ()
    "ck.barrier"() : () -> ()
    cf.cond_br %some, ^loop(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^last(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
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
    cf.cond_br %some, ^loop(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc), ^last(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7, %d8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^last(%e0: !acc, %e1: !acc, %e2: !acc, %e3: !acc, %e4: !acc, %e5: !acc, %e6: !acc, %e7: !acc, %e8: !acc):
    %f0 = "ck.mfma"(%a, %b, %e0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f1 = "ck.mfma"(%a, %b, %e1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f2 = "ck.mfma"(%a, %b, %e2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f3 = "ck.mfma"(%a, %b, %e3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f4 = "ck.mfma"(%a, %b, %e4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f5 = "ck.mfma"(%a, %b, %e5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f6 = "ck.mfma"(%a, %b, %e6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f7 = "ck.mfma"(%a, %b, %e7) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %f8 = "ck.mfma"(%a, %b, %e8) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.br ^end(%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8 : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
  ^end(%r0: !acc, %r1: !acc, %r2: !acc, %r3: !acc, %r4: !acc, %r5: !acc, %r6: !acc, %r7: !acc, %r8: !acc):
    %s = arith.addf %r0, %r8 : !acc
    return
  }

  // CHECK-LABEL: llvm.func @turns
  // CHECK: s.waitcnt
  // CHECK: llvm.inline_asm has_side_effects "s_nop 1\0Av_mfma
  // CHECK: llvm.inline_asm "v_mfma
  func.func @turns(%a: !frag, %b: !frag, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.br ^turn
  ^turn:
    "ck.wait"() {copies = 0 : i64, lds = 0 : i64} : () -> ()
    cf.br ^loop(%z, %z, %z, %z, %z, %z, %z, %z, %z : !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc, !acc)
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
    cf.cond_br %some, ^turn, ^out
  ^out:
    return
  }
}
