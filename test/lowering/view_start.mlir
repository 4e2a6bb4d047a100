// What a view's own slices, paddings and frozen dimensions add to every offset goes into the base, in 64 bits: behind a
// left padding it is negative, which the offset of a lane must not be.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, ?0], strides=[?0, 1]); d2 = left_pad(d0, length=64, pad=3); view(d2, d1)">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, ?0], strides=[?0, 1]); d2 = left_pad(d0, length=64, pad=3); view(d2, d1)", [8, 8]>

!columns = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=8); d3 = left_pad(d1, length=?1, pad=3); view(d2, d3)">
!columns_window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?1, 1]); d2 = right_pad(d0, length=?0, multiple=8); d3 = left_pad(d1, length=?1, pad=3); view(d2, d3)", [8, 8]>
!growing = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); d2 = left_pad(d0, length=64, pad=?0); view(d2, d1)">
!growing_window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); d2 = left_pad(d0, length=64, pad=?0); view(d2, d1)", [8, 8]>

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @padded
  // CHECK-SAME: %[[POINTER:[a-z0-9]+]]: !llvm.ptr<1> {llvm.inreg}, %[[N:[a-z0-9]+]]: i32 {llvm.inreg}, %[[O:[a-z0-9]+]]: i32
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

  // Behind a padding on the left of its columns a row that does not exist is not refused by the size of the buffer, whose
  // end lies further away from its base: it is compared.
  // CHECK-LABEL: llvm.func @columns
  // CHECK-DAG: arith.cmpi ult
  // CHECK-DAG: arith.cmpi uge
  // CHECK: rocdl.raw.ptr.buffer.load
  func.func @columns(%p: !llvm.ptr<1>, %m: i32, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m, %n) : (!llvm.ptr<1>, i32, i32) -> !columns
    %window = "ck.make_window"(%view, %zero, %zero) : (!columns, i32, i32) -> !columns_window
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 8@lane, d1: 8@lane", registers = array<i32: 0>} : (!columns_window) -> vector<1xf32>
    return
  }

  // A padding that a loop makes longer is taken from the base too: no offset is negative.
  // CHECK-LABEL: llvm.func @growing
  // CHECK-SAME: %[[POINTER:[a-z0-9]+]]: !llvm.ptr<1> {llvm.inreg}, %[[N:[a-z0-9]+]]: i32
  // CHECK: cf.br ^[[HEAD:.*]](
  // CHECK: ^[[HEAD]](%[[INDEX:.*]]: i32):
  // CHECK: %[[START:.*]] = arith.muli {{.*}} : i64
  // CHECK: %[[BASE:.*]] = llvm.getelementptr %[[POINTER]][%[[START]]]
  // CHECK: %[[RESOURCE:.*]] = rocdl.make.buffer.rsrc %[[BASE]]
  // CHECK: rocdl.raw.ptr.buffer.load %[[RESOURCE]]
  func.func @growing(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    cf.br ^head(%zero : i32)
  ^head(%i: i32):
    %view = "ck.make_view"(%p, %i) : (!llvm.ptr<1>, i32) -> !growing
    %window = "ck.make_window"(%view, %zero, %zero) : (!growing, i32, i32) -> !growing_window
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 8@lane, d1: 8@lane", registers = array<i32: 0>} : (!growing_window) -> vector<1xf32>
    %next = arith.addi %i, %one : i32
    %more = arith.cmpi slt, %next, %n : i32
    cf.cond_br %more, ^head(%next : i32), ^end
  ^end:
    return
  }
}
