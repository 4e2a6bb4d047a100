// A padding to a multiple of the length pads nothing, and is compared only where a window may start in between: its last
// elements lie outside then. Windows at multiples, by arithmetic or by what is promised of arguments, need no comparison.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[8, 256], strides=[256, 1]); d2 = right_pad(d1, length=256, multiple=64); view(d0, d2)">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[8, 256], strides=[256, 1]); d2 = right_pad(d1, length=256, multiple=64); view(d0, d2)", [8, 64]>

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @at_multiples
  // CHECK-NOT: arith.cmpi {{[us]}}
  // CHECK: rocdl.raw.ptr.buffer.store
  // CHECK-NOT: arith.cmpi {{[us]}}
  // CHECK: rocdl.raw.ptr.buffer.store
  // CHECK: llvm.return
  func.func @at_multiples(%p: !llvm.ptr<1>, %b: i32, %a: i32 {ck.divisor = 64 : i64}, %v: vector<1xf32>) attributes {ck.waves = 8 : i32} {
    %zero = arith.constant 0 : i32
    %tile = arith.constant 64 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %first = arith.muli %b, %tile : i32
    %0 = "ck.make_window"(%view, %zero, %first) : (!view, i32, i32) -> !window
    "ck.store_fragment"(%v, %0) {distribution = "d0: 8@wave, d1: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    %1 = "ck.make_window"(%view, %zero, %a) : (!view, i32, i32) -> !window
    "ck.store_fragment"(%v, %1) {distribution = "d0: 8@wave, d1: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @in_between
  // CHECK: %[[END:.*]] = arith.constant 256 : i32
  // CHECK: arith.cmpi ult, %{{.*}}, %[[END]] : i32
  // CHECK: rocdl.raw.ptr.buffer.store
  // CHECK: llvm.return
  func.func @in_between(%p: !llvm.ptr<1>, %a: i32, %v: vector<1xf32>) attributes {ck.waves = 8 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %0 = "ck.make_window"(%view, %zero, %a) : (!view, i32, i32) -> !window
    "ck.store_fragment"(%v, %0) {distribution = "d0: 8@wave, d1: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    return
  }
}
