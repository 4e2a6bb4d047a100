// Where a block has many copies to LDS their addresses are not known before it: what they begin with passes through
// assembly, in a loop beside what moves there, and each copy adds its own distance. Of fewer each has its address. LLVM's
// vectorizers leave such kernels alone, so that the number of a wave stays in a scalar register.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 1024], strides=[1024, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 1024], strides=[1024, 1]); view(d0, d1) align 8", [16, 64]>

gpu.module @kernels [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: llvm.func @many
  // CHECK-SAME: "noimplicitfloat"
  // CHECK: %[[FIRST:.*]] = llvm.inline_asm has_side_effects "", "=s,0,s"
  // CHECK: %[[PLACE:.*]] = llvm.getelementptr %{{.*}}[%[[FIRST]]]
  // CHECK: rocdl.raw.ptr.buffer.load.async.lds %{{.*}}, %[[PLACE]],
  // CHECK: arith.addi %[[FIRST]]
  // CHECK-NOT: llvm.inline_asm
  // CHECK: ^bb1(%[[STEP:.*]]: i32):
  // CHECK: %[[COLUMN:.*]] = arith.muli %[[STEP]]
  // CHECK: %[[BYTES:.*]] = arith.shli %[[COLUMN]]
  // CHECK: %[[START:.*]] = llvm.inline_asm "", "=s,0,s" %{{.*}}, %[[BYTES]]
  // CHECK: arith.addi %[[START]]
  // CHECK-NOT: llvm.inline_asm
  // CHECK: llvm.return
  func.func @many(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 2 : i32, ck.lds_bytes = 65536 : i64} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %width = arith.constant 64 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    %l0 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !ck.lds<[16, 64], f16>
    %l1 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 2048 : i64} : () -> !ck.lds<[16, 64], f16>
    %l2 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 4096 : i64} : () -> !ck.lds<[16, 64], f16>
    %l3 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 6144 : i64} : () -> !ck.lds<[16, 64], f16>
    %l4 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 8192 : i64} : () -> !ck.lds<[16, 64], f16>
    %l5 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 10240 : i64} : () -> !ck.lds<[16, 64], f16>
    %l6 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 12288 : i64} : () -> !ck.lds<[16, 64], f16>
    %l7 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 14336 : i64} : () -> !ck.lds<[16, 64], f16>
    %l8 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 16384 : i64} : () -> !ck.lds<[16, 64], f16>
    %l9 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 18432 : i64} : () -> !ck.lds<[16, 64], f16>
    %l10 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 20480 : i64} : () -> !ck.lds<[16, 64], f16>
    %l11 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 22528 : i64} : () -> !ck.lds<[16, 64], f16>
    %l12 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 24576 : i64} : () -> !ck.lds<[16, 64], f16>
    %l13 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 26624 : i64} : () -> !ck.lds<[16, 64], f16>
    %l14 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 28672 : i64} : () -> !ck.lds<[16, 64], f16>
    %l15 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 30720 : i64} : () -> !ck.lds<[16, 64], f16>
    %l16 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 32768 : i64} : () -> !ck.lds<[16, 64], f16>
    %l17 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 34816 : i64} : () -> !ck.lds<[16, 64], f16>
    %l18 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 36864 : i64} : () -> !ck.lds<[16, 64], f16>
    %l19 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 38912 : i64} : () -> !ck.lds<[16, 64], f16>
    %l20 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 40960 : i64} : () -> !ck.lds<[16, 64], f16>
    %l21 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 43008 : i64} : () -> !ck.lds<[16, 64], f16>
    %l22 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 45056 : i64} : () -> !ck.lds<[16, 64], f16>
    %l23 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 47104 : i64} : () -> !ck.lds<[16, 64], f16>
    %l24 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 49152 : i64} : () -> !ck.lds<[16, 64], f16>
    "ck.copy_fragment"(%window, %l0) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l1) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l2) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l3) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l4) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l5) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l6) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l7) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l8) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l9) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l10) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l11) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l12) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l13) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l14) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l15) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l16) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l17) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l18) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l19) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l20) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l21) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l22) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l23) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%window, %l24) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    cf.br ^step(%zero : i32) {ck.advances = array<i32: 0>}
  ^step(%i: i32):
    %column = arith.muli %i, %width : i32
    %next = "ck.move_window"(%window, %zero, %column) : (!window, i32, i32) -> !window
    "ck.copy_fragment"(%next, %l0) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l1) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l2) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l3) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l4) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l5) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l6) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l7) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l8) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l9) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l10) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l11) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l12) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l13) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l14) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l15) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l16) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l17) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l18) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l19) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l20) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l21) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l22) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l23) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    "ck.copy_fragment"(%next, %l24) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    %after = arith.addi %i, %one : i32
    %again = arith.cmpi slt, %after, %n : i32
    cf.cond_br %again, ^step(%after : i32), ^end {ck.advances = array<i32: 0>}
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @few
  // CHECK-NOT: llvm.inline_asm
  // CHECK: llvm.return
  func.func @few(%p: !llvm.ptr<1>) attributes {ck.waves = 2 : i32, ck.lds_bytes = 65536 : i64} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    %l0 = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !ck.lds<[16, 64], f16>
    "ck.copy_fragment"(%window, %l0) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    return
  }
}
