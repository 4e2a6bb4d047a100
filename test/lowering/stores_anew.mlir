// Of more than 96 stores to a tile, in a block with as many loads of one, the offsets, and how many elements are left behind
// them, are not those of loads: they begin with empty assembly that has effects, once for each pointer. Of fewer they are
// the same values.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s
!view128 = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=64); d3 = right_pad(d1, length=?1, multiple=128); view(d2, d3)">
!window128 = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=64); d3 = right_pad(d1, length=?1, multiple=128); view(d2, d3)", [64, 128]>
!view64 = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=64); d3 = right_pad(d1, length=?1, multiple=64); view(d2, d3)">
!window64 = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=64); d3 = right_pad(d1, length=?1, multiple=64); view(d2, d3)", [64, 64]>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @many
  // CHECK: llvm.inline_asm "", "=v,0"
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: %[[START:.*]] = llvm.inline_asm has_side_effects "", "=v,0"
  // CHECK: %[[LEFT:.*]] = llvm.inline_asm has_side_effects "", "=v,0"
  // CHECK: arith.addi %[[LEFT]],
  // CHECK: rocdl.raw.ptr.buffer.store
  func.func @many(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %m: i32, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m, %n) : (!llvm.ptr<1>, i32, i32) -> !view128
    %w = "ck.make_window"(%v, %zero, %zero) : (!view128, i32, i32) -> !window128
    %u = "ck.make_view"(%q, %m, %n) : (!llvm.ptr<1>, i32, i32) -> !view128
    %t = "ck.make_window"(%u, %zero, %zero) : (!view128, i32, i32) -> !window128
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 128@y0", registers = array<i32: 1>} : (!window128) -> vector<1xf32>
    "ck.store_fragment"(%0, %t) {distribution = "d0: 64@lane, d1: 128@y0", registers = array<i32: 1>} : (vector<1xf32>, !window128) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @few
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET:.*]], %
  // CHECK-NOT: inline_asm
  // CHECK: rocdl.raw.ptr.buffer.store %{{.*}}, %{{.*}}, %[[OFFSET]],
  func.func @few(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %m: i32, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m, %n) : (!llvm.ptr<1>, i32, i32) -> !view64
    %w = "ck.make_window"(%v, %zero, %zero) : (!view64, i32, i32) -> !window64
    %u = "ck.make_view"(%q, %m, %n) : (!llvm.ptr<1>, i32, i32) -> !view64
    %t = "ck.make_window"(%u, %zero, %zero) : (!view64, i32, i32) -> !window64
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 64@y0", registers = array<i32: 1>} : (!window64) -> vector<1xf32>
    "ck.store_fragment"(%0, %t) {distribution = "d0: 64@lane, d1: 64@y0", registers = array<i32: 1>} : (vector<1xf32>, !window64) -> ()
    return
  }
}
