// Where an innermost loop is next, the last word of buffers comes by assembly that does nothing; elsewhere, and where the
// loop makes buffers anew, it is a constant. Of buffers of one size of a product, the second pointer's have a word
// of their own.

// RUN: ckmlir-opt %s --ck-lower-fragments --cse | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[16, 512], strides=[512, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[16, 512], strides=[512, 1]); view(d0, d1) align 8", [16, 32]>

// CHECK-LABEL: llvm.func @before
// CHECK-SAME: (%[[P:.*]]: !llvm.ptr<1> {llvm.inreg}, %[[Q:.*]]: !llvm.ptr<1> {llvm.inreg}, %{{.*}}: i1)
// CHECK: %[[FLAGS:.*]] = arith.constant 159744 : i32
// CHECK: %[[FIRST:.*]] = llvm.inline_asm "", "=s,0" %[[FLAGS]] : (i32) -> i32
// CHECK: rocdl.make.buffer.rsrc %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]]
// CHECK: %[[SECOND:.*]] = llvm.inline_asm "", "=s,0,s" %[[FLAGS]], %[[Q]] : (i32, !llvm.ptr<1>) -> i32
// CHECK: %[[LIKE:.*]] = rocdl.make.buffer.rsrc %[[Q]], %{{.*}}, %{{.*}}, %[[SECOND]]
// CHECK: ^bb1
// CHECK-NOT: inline_asm
// CHECK: rocdl.make.buffer.rsrc %[[P]], %{{.*}}, %{{.*}}, %[[FLAGS]]
// CHECK-NOT: {{inline_asm|make.buffer}}
// CHECK: rocdl.raw.ptr.buffer.load %[[LIKE]]
// CHECK: ^bb2
// CHECK-NOT: inline_asm
// CHECK: rocdl.make.buffer.rsrc %[[Q]], %{{.*}}, %{{.*}}, %[[FLAGS]]
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @before(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 32 : i32
    %none = arith.constant dense<0.0> : vector<16xf32>
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %u = "ck.make_view"(%q) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %x = "ck.make_window"(%u, %zero, %zero) : (!view, i32, i32) -> !window
    %a = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    %b = "ck.load_fragment"(%x) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %there = "ck.make_window"(%v, %zero, %i) : (!view, i32, i32) -> !window
    %d = "ck.load_fragment"(%there) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    %like = "ck.make_window"(%u, %zero, %i) : (!view, i32, i32) -> !window
    %f = "ck.load_fragment"(%like) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    %m = "ck.mfma"(%a, %b, %none) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    %behind = "ck.make_window"(%u, %zero, %zero) : (!view, i32, i32) -> !window
    %e = "ck.load_fragment"(%behind) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 4, 5, 6, 7>} : (!window) -> vector<4xf16>
    return
  }
}
