// Where the chip transposes while it reads LDS, an operand keeps the order that it has in memory: it is loaded and written
// in vectors along that, and read transposed. Elsewhere blocks are transposed in registers on the way to LDS.

// RUN: ckmlir-opt %s --ck-infer-distributions --ck-split-tiles | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[1, 64]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[1, 64]); view(d0, d1) align 8", [32, 32]>
!unknown = !ck.tile<[32, 32], f16, "?">
!operand = !ck.tile<[32, 32], f16, "d0: 32@lane.1, d1: 2@y0 2@lane.0 8@y1">

gpu.module @transposing [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: func.func @kept
  func.func @kept(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    // CHECK: "ck.load_fragment"{{.*}} registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>}
    %loaded = "ck.load"(%window) : (!window) -> !unknown
    // CHECK: "ck.lds_alloc"() {layout = "lengths 32x32 order 1,0 pitch 32"
    // CHECK-NOT: vector.shuffle
    // CHECK: "ck.lds_write"{{.*}} registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>}
    %lds = "ck.to_lds"(%loaded) : (!unknown) -> !ck.lds<[32, 32], f16>
    // CHECK: "ck.lds_read"{{.*}} {distribution = "d0: 2@lane.1 4@lane.3 4@y2, d1: 2@y0 2@lane.0 2@y1 4@lane.2", registers = array<i32: 0, 1, 2, 3>, transposed}
    // CHECK: "ck.lds_read"{{.*}} registers = array<i32: 12, 13, 14, 15>, transposed}
    %operand = "ck.from_lds"(%lds) : (!ck.lds<[32, 32], f16>) -> !operand
    return
  }
}

gpu.module @other [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: func.func @blocks
  func.func @blocks(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    %loaded = "ck.load"(%window) : (!window) -> !unknown
    // CHECK: "ck.lds_alloc"() {layout = "lengths 32x32 order 0,1 pitch 32"
    %lds = "ck.to_lds"(%loaded) : (!unknown) -> !ck.lds<[32, 32], f16>
    // CHECK: "ck.lds_read"
    // CHECK-NOT: transposed
    %operand = "ck.from_lds"(%lds) : (!ck.lds<[32, 32], f16>) -> !operand
    return
  }
}
