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

!id_view = !ck.view<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4">
!id_window = !ck.window<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4", [16]>
!ids = !ck.tile<[16], i32, "r: 8@lane.1, d0: 2@y0 8@lane.0">

// At indices each copy takes that of its own row, whichever elements of the row the lane copies.
gpu.module @listed [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: func.func @rows_by_a_list
  func.func @rows_by_a_list(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    // CHECK: %[[WINDOW:.*]] = "ck.make_window"
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    %id_view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !id_view
    %id_window = "ck.make_window"(%id_view, %o) : (!id_view, i32) -> !id_window
    // CHECK: %[[LOW:.*]] = "ck.load_fragment"{{.*}} registers = array<i32: 0>
    // CHECK: %[[HIGH:.*]] = "ck.load_fragment"{{.*}} registers = array<i32: 1>
    %ids = "ck.load"(%id_window) : (!id_window) -> !ids
    // CHECK: %[[LDS:.*]] = "ck.lds_alloc"
    // CHECK: %[[FIRST:.*]] = vector.extract %[[LOW]][0]
    // CHECK: "ck.copy_fragment"(%[[WINDOW]], %[[LDS]], %[[FIRST]]) {axis = 0 : i64, begins, {{.*}}reach = "near", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>}
    // CHECK: %[[SECOND:.*]] = vector.extract %[[HIGH]][0]
    // CHECK: "ck.copy_fragment"(%[[WINDOW]], %[[LDS]], %[[SECOND]]) {axis = 0 : i64, {{.*}}reach = "near", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>}
    // CHECK-NOT: copy_fragment
    %lds = "ck.copy_to_lds"(%window, %ids) {axis = 0 : i64, reach = "near"} : (!window, !ids) -> !lds
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
