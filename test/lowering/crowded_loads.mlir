// Loads of a tile that no loop repeats, and that differ along a padded dimension, have no condition each if there are
// more than four: how many elements are left behind the first is in a vector register, and the sign of what each leaves
// of it joins the offset.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); d2 = right_pad(d0, length=?0, multiple=8); d3 = right_pad(d1, length=?1, multiple=64); view(d2, d3)">
!eight = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); d2 = right_pad(d0, length=?0, multiple=8); d3 = right_pad(d1, length=?1, multiple=64); view(d2, d3)", [64, 8]>
!four = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); d2 = right_pad(d0, length=?0, multiple=8); d3 = right_pad(d1, length=?1, multiple=64); view(d2, d3)", [64, 4]>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @eight
  // CHECK-NOT: arith.cmpi ult
  // CHECK: %[[LEFT:.*]] = llvm.inline_asm "", "=v,0" %{{.*}} : (i32) -> i32
  // CHECK: arith.addi %[[LEFT]], %c-1_i32 : i32
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK-NOT: llvm.inline_asm
  // CHECK: %[[NEXT:.*]] = arith.addi %[[LEFT]], %c-2_i32{{.*}} : i32
  // CHECK: %[[SIGN:.*]] = arith.andi %[[NEXT]], %c-2147483648_i32{{.*}} : i32
  // CHECK: %[[OFFSET:.*]] = arith.ori %{{.*}}, %[[SIGN]] : i32
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]],
  func.func @eight(%p: !llvm.ptr<1>, %m: i32, %k: i32, %pitch: i32, %at: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m, %k, %pitch) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %at) : (!view, i32, i32) -> !eight
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0>} : (!eight) -> vector<1xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 1>} : (!eight) -> vector<1xf16>
    return
  }

  // CHECK-LABEL: llvm.func @four
  // CHECK-NOT: llvm.inline_asm
  // CHECK: arith.cmpi ult
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: arith.cmpi ult
  // CHECK: rocdl.raw.ptr.buffer.load
  func.func @four(%p: !llvm.ptr<1>, %m: i32, %k: i32, %pitch: i32, %at: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m, %k, %pitch) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %at) : (!view, i32, i32) -> !four
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0>} : (!four) -> vector<1xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 1>} : (!four) -> vector<1xf16>
    return
  }

  // In a step of a loop that moves along another dimension what exists is found before the loop.
  // CHECK-LABEL: llvm.func @step
  // CHECK-NOT: llvm.inline_asm
  // CHECK: arith.cmpi ult
  // CHECK: rocdl.raw.ptr.buffer.load
  func.func @step(%p: !llvm.ptr<1>, %m: i32, %k: i32, %pitch: i32, %at: i32, %by: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m, %k, %pitch) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    cf.br ^bb1(%zero : i32)
  ^bb1(%row: i32):
    %w = "ck.make_window"(%v, %zero, %at) : (!view, i32, i32) -> !eight
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 1>} : (!eight) -> vector<1xf16>
    %next = arith.addi %row, %by : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}
