// A copy to LDS splits into cells as wide as the chip and the window's alignment allow, and LDS keeps the memory's order. The value
// of the LDS tensor begins with the first of them.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, ?0%8], strides=[?0%8, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, ?0%8], strides=[?0%8, 1]); view(d0, d1) align 8", [16, 64]>
!lds = !ck.lds<[16, 64], f16>

gpu.module @wide [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: func.func @sixteen_bytes
  func.func @sixteen_bytes(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    // CHECK: "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64"
    // CHECK-NEXT: "ck.copy_fragment"{{.*}} {begins, distribution = "d0: 2@y0 8@lane, d1: 8@lane 8@y1"
    // CHECK-NEXT: "ck.copy_fragment"{{.*}} {distribution = "d0: 2@y0 8@lane, d1: 8@lane 8@y1"
    // CHECK-NOT: copy_fragment
    %lds = "ck.copy_to_lds"(%window) : (!window) -> !lds
    return
  }
}

gpu.module @narrow [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: func.func @four_bytes
  func.func @four_bytes(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 2 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    // CHECK: "ck.copy_fragment"{{.*}} {begins, distribution = "d0: 4@y0 2@wave 2@lane, d1: 32@lane 2@y1"
    // CHECK-COUNT-3: "ck.copy_fragment"{{.*}} {distribution = "d0: 4@y0 2@wave 2@lane, d1: 32@lane 2@y1"
    // CHECK-NOT: copy_fragment
    %lds = "ck.copy_to_lds"(%window) : (!window) -> !lds
    return
  }
}
