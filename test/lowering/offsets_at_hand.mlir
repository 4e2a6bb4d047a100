// In a kernel in pieces what a block writes shares one offset, which passes through empty assembly, and constants lead
// from there to each element; in others offsets are sums that LLVM may compute where it likes. A loop of one block that
// does not change the offset hands it on, so that nothing is copied; one that changes it does not. In a loop with branches
// offsets that are alike pass through where the turn ends, once.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1", [4, 32]>
!wide = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1">
!wide_window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1", [4, 32]>
!strided = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1">
!any_window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1", [4, 32]>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @pieces
  func.func @pieces(%p: !llvm.ptr<1>, %m: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    // CHECK: %[[START:.*]] = llvm.inline_asm has_side_effects "", "=v,0" %{{.*}} : (i32) -> i32
    // CHECK: rocdl.raw.ptr.buffer.atomic.fadd %{{.*}}, %{{.*}}, %[[START]],
    "ck.atomic_fragment"(%v, %window) {kind = "add", distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    // CHECK-NOT: inline_asm
    // CHECK: %[[NEXT:.*]] = arith.addi %[[START]], %c256_i32
    // CHECK: rocdl.raw.ptr.buffer.store %{{.*}}, %{{.*}}, %[[NEXT]],
    "ck.store_fragment"(%v, %window) {distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 1>} : (vector<1xf32>, !window) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @turns
  func.func @turns(%p: !llvm.ptr<1>, %m: i32, %v: vector<1xf32>, %some: i1) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    // CHECK: %[[OWN:.*]] = arith.addi
    // CHECK-NEXT: cf.cond_br %{{.*}}, ^[[LOOP:.*]](%{{.*}}, %[[OWN]] : i32, i32), ^[[END:.*]](%{{.*}} : i32)
    cf.cond_br %some, ^loop(%zero : i32), ^end(%one : i32)
  // CHECK: ^[[LOOP]](%{{.*}}: i32, %[[BEFORE:.*]]: i32):
  ^loop(%turn: i32):
    // CHECK: %[[START:.*]] = llvm.inline_asm has_side_effects "", "=v,0" %[[BEFORE]] : (i32) -> i32
    "ck.atomic_fragment"(%v, %window) {kind = "add", distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    %next = arith.addi %turn, %one : i32
    %go = arith.cmpi slt, %next, %m : i32
    // CHECK: cf.cond_br %{{.*}}, ^[[LOOP]](%{{.*}}, %[[START]] : i32, i32), ^[[END]](%{{.*}} : i32)
    cf.cond_br %go, ^loop(%next : i32), ^end(%next : i32)
  ^end(%last: i32):
    return
  }

  // CHECK-LABEL: llvm.func @moving
  func.func @moving(%p: !llvm.ptr<1>, %m: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    cf.br ^loop(%zero : i32)
  // CHECK: ^{{.*}}(%[[TURN:.*]]: i32):
  ^loop(%turn: i32):
    // How far apart rows are changes with each turn.
    %view = "ck.make_view"(%p, %m, %turn) : (!llvm.ptr<1>, i32, i32) -> !strided
    %window = "ck.make_window"(%view, %zero, %zero) : (!strided, i32, i32) -> !any_window
    // CHECK: llvm.inline_asm has_side_effects "", "=v,0"
    "ck.atomic_fragment"(%v, %window) {kind = "add", distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !any_window) -> ()
    %next = arith.addi %turn, %one : i32
    %go = arith.cmpi slt, %next, %m : i32
    // CHECK: cf.cond_br %{{.*}}, ^{{.*}}(%{{[^,]*}} : i32), ^
    cf.cond_br %go, ^loop(%next : i32), ^end
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @branches
  func.func @branches(%p: !llvm.ptr<1>, %m: i32, %v: vector<1xf32>, %some: i1) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    %wide_view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !wide
    %wide = "ck.make_window"(%wide_view, %zero, %zero) : (!wide, i32, i32) -> !wide_window
    // CHECK: cf.br ^[[LOOP:.*]](%{{.*}}, %{{.*}}, %{{.*}} : i32, i32, i32)
    cf.br ^loop(%zero : i32)
  // CHECK: ^[[LOOP]](%{{.*}}: i32, %[[BEFORE:.*]]: i32, %[[OTHER:.*]]: i32):
  // CHECK-NOT: inline_asm
  ^loop(%turn: i32):
    cf.cond_br %some, ^add, ^keep
  ^add:
    // CHECK: rocdl.raw.ptr.buffer.atomic.fadd %{{.*}}, %{{.*}}, %[[BEFORE]],
    "ck.atomic_fragment"(%v, %window) {kind = "add", distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    cf.br ^rest
  ^keep:
    // CHECK: rocdl.raw.ptr.buffer.store %{{.*}}, %{{.*}}, %[[BEFORE]],
    "ck.store_fragment"(%v, %window) {distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    // Rows that are further apart are others.
    // CHECK: rocdl.raw.ptr.buffer.store %{{.*}}, %{{.*}}, %[[OTHER]],
    "ck.store_fragment"(%v, %wide) {distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !wide_window) -> ()
    cf.br ^rest
  ^rest:
    %next = arith.addi %turn, %one : i32
    %go = arith.cmpi slt, %next, %m : i32
    // CHECK: %[[ONE:.*]] = llvm.inline_asm has_side_effects "", "=v,0" %[[BEFORE]] : (i32) -> i32
    // CHECK-NEXT: %[[TWO:.*]] = llvm.inline_asm has_side_effects "", "=v,0" %[[OTHER]] : (i32) -> i32
    // CHECK-NEXT: cf.cond_br %{{.*}}, ^[[LOOP]](%{{.*}}, %[[ONE]], %[[TWO]] : i32, i32, i32), ^
    cf.cond_br %go, ^loop(%next : i32), ^end
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @whole
  // CHECK-NOT: inline_asm
  // CHECK: llvm.return
  func.func @whole(%p: !llvm.ptr<1>, %m: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    "ck.store_fragment"(%v, %window) {distribution = "d0: 2@y0 2@lane, d1: 32@lane", registers = array<i32: 1>} : (vector<1xf32>, !window) -> ()
    return
  }
}
