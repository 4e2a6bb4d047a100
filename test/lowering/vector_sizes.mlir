// The size of a vector's buffer is a product of 32 bits, of the length limited before: at most 2 GiB, without 64 bits.
// If a factor is not a power of two, or the kernel has a loop and multiplies, the size keeps its 64 bits.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 4">
!window = !ck.window<f16, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 4", [256]>
!threes = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 3], strides=[3, 1]); view(d0, d1)">
!threes_window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 3], strides=[3, 1]); view(d0, d1)", [64, 1]>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @vector
  // CHECK-SAME: %{{.*}}: !llvm.ptr<1> {llvm.inreg}, %[[N:[a-z0-9]+]]: i32
  // CHECK: %[[MOST:.*]] = arith.constant 1073741824 : i32
  // CHECK: %[[KEPT:.*]] = arith.minui %[[N]], %[[MOST]] : i32
  // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK: %[[BYTES:.*]] = arith.shli %[[KEPT]], %[[ONE]] : i32
  // CHECK: %[[SIZE:.*]] = arith.extui %[[BYTES]] : i32 to i64
  // CHECK: rocdl.make.buffer.rsrc %{{.*}}, %{{.*}}, %[[SIZE]]
  func.func @vector(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero) : (!view, i32) -> !window
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    return
  }

  // CHECK-LABEL: llvm.func @threes
  // CHECK-NOT: arith.minui
  // CHECK: arith.shrui %{{.*}} : i64
  // CHECK: rocdl.make.buffer.rsrc
  func.func @threes(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !threes
    %window = "ck.make_window"(%view, %zero, %zero) : (!threes, i32, i32) -> !threes_window
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 64@lane, d1: 1", registers = array<i32: 0>} : (!threes_window) -> vector<1xf16>
    return
  }

  // CHECK-LABEL: llvm.func @before_a_loop
  // CHECK: arith.minui
  // CHECK-NOT: arith.shrui %{{.*}} : i64
  // CHECK: rocdl.make.buffer.rsrc
  func.func @before_a_loop(%p: !llvm.ptr<1>, %n: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero) : (!view, i32) -> !window
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    cf.br ^head
  ^head:
    cf.cond_br %c, ^head, ^end
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @before_products
  // CHECK-NOT: arith.minui
  // CHECK: arith.shrui %{{.*}} : i64
  // CHECK: rocdl.make.buffer.rsrc
  func.func @before_products(%p: !llvm.ptr<1>, %n: i32, %c: i1, %acc: vector<16xf32>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero) : (!view, i32) -> !window
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    cf.br ^head(%acc : vector<16xf32>)
  ^head(%sum: vector<16xf32>):
    %next = "ck.mfma"(%0, %0, %sum) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    cf.cond_br %c, ^head(%next : vector<16xf32>), ^end
  ^end:
    return
  }
}
