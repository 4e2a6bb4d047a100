// Four loads of a tile in a loop that lie within an immediate offset of the first begin with one offset, which passes
// through empty assembly, and go on by constants; before the loop a fence keeps them behind what was loaded before them.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

// CHECK-LABEL: llvm.func @near
// CHECK: rocdl.sched.barrier none
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: inline_asm
// CHECK: cf.br ^bb1(%{{.*}}, %{{.*}} : i32, i32)
// CHECK: ^bb1(%{{.*}}: i32, %[[BEFORE:.*]]: i32):
// CHECK: %[[START:.*]] = llvm.inline_asm "", "=v,0" %[[BEFORE]] : (i32) -> i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[START]],
// CHECK-NOT: inline_asm
// CHECK: %[[NEXT:.*]] = arith.addi %[[START]], %c16_i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[NEXT]],
// CHECK: cf.cond_br %{{.*}}, ^bb1(%{{.*}}, %[[START]] : i32, i32), ^bb2
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[32, 512], strides=[512, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[32, 512], strides=[512, 1]); view(d0, d1) align 8", [32, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @near(%p: !llvm.ptr<1>, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 32 : i32
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %s = "ck.load_fragment"(%w) {distribution = "d0: 32@lane, d1: 4@y0 2@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %x = "ck.make_window"(%v, %zero, %i) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%x) {distribution = "d0: 32@lane, d1: 4@y0 2@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    %u = "ck.load_fragment"(%x) {distribution = "d0: 32@lane, d1: 4@y0 2@lane 4@y1", registers = array<i32: 4, 5, 6, 7>} : (!window) -> vector<4xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}
