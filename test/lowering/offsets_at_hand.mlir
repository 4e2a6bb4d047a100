// In a kernel in pieces what a block writes shares one offset, which passes through empty assembly, and constants lead
// from there to each element; in others offsets are sums that LLVM may compute where it likes.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[32, 1]); d2 = right_pad(d0, length=?0, multiple=4); view(d2, d1) align 1", [4, 32]>

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
