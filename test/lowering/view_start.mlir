// What a view's own slices, paddings and frozen dimensions add to every offset goes into the base, in 64 bits: behind a
// left padding it is negative, which the offset of a lane must not be.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, ?0], strides=[?0, 1]); d2 = left_pad(d0, length=64, pad=3); view(d2, d1)">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, ?0], strides=[?0, 1]); d2 = left_pad(d0, length=64, pad=3); view(d2, d1)", [8, 8]>

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @padded
  // CHECK-SAME: %[[POINTER:.*]]: !llvm.ptr<1>, %[[N:.*]]: i32, %[[O:.*]]: i32
  func.func @padded(%p: !llvm.ptr<1>, %n: i32, %o: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    // CHECK: %[[WIDE:.*]] = arith.extui %[[N]] : i32 to i64
    // CHECK: %[[BYTES:.*]] = arith.constant -12 : i64
    // CHECK: %[[START:.*]] = arith.muli %[[WIDE]], %[[BYTES]] : i64
    // CHECK: %[[BASE:.*]] = llvm.getelementptr %[[POINTER]][%[[START]]]
    // CHECK: rocdl.make.buffer.rsrc %[[BASE]]
    // CHECK: rocdl.raw.ptr.buffer.load
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 8@lane, d1: 8@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    return
  }
}
