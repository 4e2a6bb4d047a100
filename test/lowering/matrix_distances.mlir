// Where a block behind a branch of two ways begins to compute with what was multiplied before it, two wait states stand
// that LLVM does not count. A loop that goes on multiplying has none, nor has a block that is reached without a choice. Two
// also stand where lanes exchange what another block left, and at the start of a remainder, which may write registers of the
// loop's last products.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!acc = vector<16xf32>
!frag = vector<4xf16>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @left
  // CHECK: ^bb1(%{{.*}}: vector<16xf32>):
  // CHECK-NOT: llvm.inline_asm
  // CHECK: rocdl.mfma
  // CHECK: ^bb2(%{{.*}}: vector<16xf32>):
  // CHECK-NEXT: llvm.inline_asm has_side_effects "s_nop 1", ""
  // CHECK-NEXT: rocdl.sched.barrier
  // CHECK: arith.addf
  func.func @left(%a: !frag, %b: !frag, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.br ^loop(%z : !acc)
  ^loop(%c: !acc):
    %d = "ck.mfma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^loop(%d : !acc), ^end(%d : !acc)
  ^end(%r: !acc):
    %s = arith.addf %r, %r : !acc
    return
  }

  // A part of it, computed with one iteration later: the loop itself begins with wait states.
  // CHECK-LABEL: llvm.func @carried
  // CHECK: ^bb1(%{{.*}}: vector<4xf32>):
  // CHECK-NEXT: llvm.inline_asm has_side_effects "s_nop 1", ""
  // CHECK: rocdl.mfma
  // CHECK: ^bb2:
  // CHECK-NOT: llvm.inline_asm
  func.func @carried(%a: !frag, %b: !frag, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    %y = arith.constant dense<0.0> : vector<4xf32>
    cf.br ^loop(%y : vector<4xf32>)
  ^loop(%p: vector<4xf32>):
    %q = arith.addf %p, %p : vector<4xf32>
    %d = "ck.mfma"(%a, %b, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %e = vector.extract_strided_slice %d {offsets = [0], sizes = [4], strides = [1]} : !acc to vector<4xf32>
    cf.cond_br %some, ^loop(%e : vector<4xf32>), ^end
  ^end:
    return
  }

  // A remainder, behind the choice whether there is one; the loop before it has none.
  // CHECK-LABEL: llvm.func @resuming
  // CHECK: ^bb1(%{{.*}}: vector<16xf32>):
  // CHECK-NOT: llvm.inline_asm
  // CHECK: rocdl.mfma
  // CHECK: ^bb2(%{{.*}}: vector<16xf32>):
  // CHECK-NOT: llvm.inline_asm
  // CHECK: ^bb3:
  // CHECK-NEXT: llvm.inline_asm has_side_effects "s_nop 1", ""
  // CHECK: rocdl.mfma
  func.func @resuming(%a: !frag, %b: !frag, %some: i1, %more: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    cf.br ^loop(%z : !acc)
  ^loop(%c: !acc):
    %d = "ck.mfma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^loop(%d : !acc), ^left(%d : !acc)
  ^left(%r: !acc):
    cf.cond_br %more, ^rest, ^end
  ^rest:
    %s = "ck.mfma"(%a, %b, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.br ^end
  ^end:
    return
  }

  // Where the ways of a branch meet again.
  // CHECK-LABEL: llvm.func @meeting
  // CHECK: rocdl.mfma
  // CHECK: ^bb3(%{{.*}}: vector<16xf32>):
  // CHECK-NEXT: llvm.inline_asm has_side_effects "s_nop 1", ""
  // CHECK-NEXT: rocdl.sched.barrier
  // CHECK: arith.addf
  func.func @meeting(%a: !frag, %b: !frag, %some: i1) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    %d = "ck.mfma"(%a, %b, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.cond_br %some, ^yes, ^no
  ^yes:
    cf.br ^meet(%d : !acc)
  ^no:
    cf.br ^meet(%z : !acc)
  ^meet(%r: !acc):
    %s = arith.addf %r, %r : !acc
    return
  }

  // CHECK-LABEL: llvm.func @on
  // CHECK-NOT: llvm.inline_asm
  func.func @on(%a: !frag, %b: !frag) attributes {ck.waves = 4 : i32} {
    %z = arith.constant dense<0.0> : !acc
    %d = "ck.mfma"(%a, %b, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    cf.br ^end(%d : !acc)
  ^end(%r: !acc):
    %s = arith.addf %r, %r : !acc
    return
  }

  // Part of a value that comes with the branch; what the block loads or computes itself LLVM counts right.
  // CHECK-LABEL: llvm.func @exchanged
  // CHECK: ^bb1(%{{.*}}: vector<2xf32>):
  // CHECK-NEXT: llvm.inline_asm has_side_effects "s_nop 1", ""
  // CHECK-NEXT: rocdl.sched.barrier
  // CHECK: rocdl.update.dpp
  // CHECK: ^bb2(%{{.*}}: vector<2xf32>):
  // CHECK-NOT: llvm.inline_asm
  func.func @exchanged(%x: vector<2xf32>, %some: i1) attributes {ck.waves = 4 : i32} {
    cf.cond_br %some, ^left(%x : vector<2xf32>), ^right(%x : vector<2xf32>)
  ^left(%a: vector<2xf32>):
    %p = vector.extract_strided_slice %a {offsets = [0], sizes = [1], strides = [1]} : vector<2xf32> to vector<1xf32>
    %q = "ck.exchange"(%p) {mask = 1 : i64} : (vector<1xf32>) -> vector<1xf32>
    return
  ^right(%b: vector<2xf32>):
    %s = arith.addf %b, %b : vector<2xf32>
    %t = "ck.exchange"(%s) {mask = 1 : i64} : (vector<2xf32>) -> vector<2xf32>
    return
  }

  // What another block leaves, a lane of each row of 16 hands on no sooner.
  // CHECK-LABEL: llvm.func @handed_on
  // CHECK: ^bb1(%{{.*}}: vector<1xf32>):
  // CHECK-NEXT: llvm.inline_asm has_side_effects "s_nop 1", ""
  // CHECK-NEXT: rocdl.sched.barrier
  // CHECK: rocdl.update.dpp
  func.func @handed_on(%x: vector<1xf32>, %some: i1) attributes {ck.waves = 4 : i32} {
    cf.cond_br %some, ^left(%x : vector<1xf32>), ^right
  ^left(%a: vector<1xf32>):
    %p = "ck.row_lane"(%a) {lane = 3 : i64} : (vector<1xf32>) -> vector<1xf32>
    return
  ^right:
    return
  }

  // Waves may branch around a cut of what has just been multiplied: 8 passes and 4 states are waited for in front of it,
  // once: the second cut stands in another block.
  // CHECK-LABEL: llvm.func @cut
  // CHECK: rocdl.mfma
  // CHECK: rocdl.sched.barrier
  // CHECK-NEXT: llvm.inline_asm has_side_effects "s_nop 11", ""
  // CHECK: cf.cond_br
  // CHECK: ^bb2(%{{.*}}: vector<16xf32>):
  // CHECK-NOT: s_nop
  // CHECK: llvm.return
  func.func @cut(%a: !frag, %b: !frag, %bound: vector<1xi32>, %lane: i32) attributes {ck.waves = 4 : i32, ck.in_pieces} {
    %z = arith.constant dense<0.0> : !acc
    %d = "ck.mfma"(%a, %b, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (!frag, !frag, !acc) -> !acc
    %c = "ck.cut_vector"(%d, %bound, %lane) {columns = array<i32: 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27>, other = 0.0 : f32}
      : (!acc, vector<1xi32>, i32) -> !acc
    %e = "ck.cut_vector"(%c, %bound, %lane) {columns = array<i32: 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27>, front, other = 0.0 : f32}
      : (!acc, vector<1xi32>, i32) -> !acc
    return
  }
}
