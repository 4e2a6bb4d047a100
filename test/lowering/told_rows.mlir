// Where columns are compared beside the rows that an index tells, what a row adds to the offset is in a vector register,
// beyond every buffer for a row that does not exist: no condition joins that of the row with that of the columns.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); d2 = right_pad(d1, length=?1, multiple=64); view(d0, d2)">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); d2 = right_pad(d1, length=?1, multiple=64); view(d0, d2)", [2, 64]>

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @columns
  // CHECK: %[[EXISTS:.*]] = arith.cmpi ult
  // CHECK: %[[NONE:.*]] = arith.constant -2147483648 : i32
  // CHECK: %[[ROW:.*]] = arith.select %[[EXISTS]], %{{.*}}, %[[NONE]] : i32
  // CHECK: %[[OWN:.*]] = llvm.inline_asm "", "=v,0" %[[ROW]]
  // CHECK: %[[COLUMNS:.*]] = arith.cmpi ult
  // CHECK: %[[OFFSET:.*]] = arith.addi %[[OWN]], %{{.*}} : i32
  // CHECK: %[[CHOSEN:.*]] = arith.select %[[COLUMNS]], %[[OFFSET]], %[[NONE]] : i32
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[CHOSEN]]
  // CHECK-NOT: arith.andi
  // CHECK: arith.select %[[COLUMNS]]
  // CHECK: rocdl.raw.ptr.buffer.load
  func.func @columns(%p: !llvm.ptr<1>, %m: i32, %n: i32, %ld: i32, %i: i32, %j: i32, %q: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m, %n, %ld) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.gather_fragment"(%window, %i) {axis = 0, reach = "near", distribution = "d0: 2@y0, d1: 64@lane", registers = array<i32: 0>} : (!window, i32) -> vector<1xf16>
    %1 = "ck.gather_fragment"(%window, %j) {axis = 0, reach = "near", distribution = "d0: 2@y0, d1: 64@lane", registers = array<i32: 1>} : (!window, i32) -> vector<1xf16>
    %2 = arith.addf %0, %1 : vector<1xf16>
    llvm.store %2, %q : vector<1xf16>, !llvm.ptr<1>
    return
  }
}
