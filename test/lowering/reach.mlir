// A gather or scatter is near, through a buffer, where its view is known to end within 2 GiB or said to; elsewhere it is
// far: lanes have an address of 64 bits, and those without an element branch around the access. A close one is near, and
// its index is not compared.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!open = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%4, 1]); view(d0, d1)">
!opened = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%4, 1]); view(d0, d1)", [64, 4]>
!known = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[9, 64], strides=[64, 1]); view(d0, d1)">
!seen = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[9, 64], strides=[64, 1]); view(d0, d1)", [64, 4]>

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @known
  // CHECK-NOT: cond_br
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK-NOT: llvm.load
  // CHECK: llvm.return
  func.func @known(%p: !llvm.ptr<1>, %i: i32, %q: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !known
    %window = "ck.make_window"(%view, %zero, %zero) : (!known, i32, i32) -> !seen
    %0 = "ck.gather_fragment"(%window, %i) {axis = 0, distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!seen, i32) -> vector<4xf32>
    llvm.store %0, %q : vector<4xf32>, !llvm.ptr<1>
    return
  }

  // The index is compared with what is left behind the origin, so that a negative one does not come back.
  // CHECK-LABEL: llvm.func @said
  // CHECK: %[[LEFT:.*]] = arith.maxsi
  // CHECK: arith.cmpi ult, %{{.*}}, %[[LEFT]] : i32
  // CHECK-NOT: cond_br
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: llvm.return
  func.func @said(%p: !llvm.ptr<1>, %m: i32, %s: i32, %first: i32, %i: i32, %q: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m, %s) : (!llvm.ptr<1>, i32, i32) -> !open
    %window = "ck.make_window"(%view, %first, %zero) : (!open, i32, i32) -> !opened
    %0 = "ck.gather_fragment"(%window, %i) {axis = 0, reach = "near", distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!opened, i32) -> vector<4xf32>
    llvm.store %0, %q : vector<4xf32>, !llvm.ptr<1>
    return
  }

  // The size of the buffer refuses what an index behind the view comes to.
  // CHECK-LABEL: llvm.func @close
  // CHECK-NOT: arith.cmpi ult, %{{.*}} : i32
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK-NOT: arith.cmpi ult, %{{.*}} : i32
  // CHECK: rocdl.raw.ptr.buffer.store
  // CHECK: llvm.return
  func.func @close(%p: !llvm.ptr<1>, %m: i32, %s: i32, %i: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m, %s) : (!llvm.ptr<1>, i32, i32) -> !open
    %window = "ck.make_window"(%view, %zero, %zero) : (!open, i32, i32) -> !opened
    %0 = "ck.gather_fragment"(%window, %i) {axis = 0, reach = "close", distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!opened, i32) -> vector<4xf32>
    "ck.scatter_fragment"(%0, %window, %i) {axis = 0, reach = "close", distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !opened, i32) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @far
  // CHECK: %[[EXISTS:.*]] = arith.cmpi ult
  // CHECK: arith.muli %{{.*}}, %{{.*}} : i64
  // CHECK: %[[PLACE:.*]] = llvm.getelementptr
  // CHECK: %[[ZERO:.*]] = llvm.mlir.zero : vector<4xi32>
  // CHECK: cf.cond_br %[[EXISTS]], ^bb1, ^bb2(%[[ZERO]] : vector<4xi32>)
  // CHECK: ^bb1:
  // CHECK: %[[LOADED:.*]] = llvm.load %[[PLACE]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
  // CHECK: cf.br ^bb2(%[[LOADED]] : vector<4xi32>)
  // CHECK: ^bb2(%{{.*}}: vector<4xi32>):
  // CHECK-NOT: raw.ptr.buffer
  // CHECK: llvm.return
  func.func @far(%p: !llvm.ptr<1>, %m: i32, %s: i32, %i: i32, %q: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m, %s) : (!llvm.ptr<1>, i32, i32) -> !open
    %window = "ck.make_window"(%view, %zero, %zero) : (!open, i32, i32) -> !opened
    %0 = "ck.gather_fragment"(%window, %i) {axis = 0, distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!opened, i32) -> vector<4xf32>
    llvm.store %0, %q : vector<4xf32>, !llvm.ptr<1>
    return
  }

  // CHECK-LABEL: llvm.func @scattered
  // CHECK: cf.cond_br %{{.*}}, ^bb1, ^bb2
  // CHECK: llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
  // CHECK: llvm.return
  func.func @scattered(%p: !llvm.ptr<1>, %m: i32, %s: i32, %i: i32, %v: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m, %s) : (!llvm.ptr<1>, i32, i32) -> !open
    %window = "ck.make_window"(%view, %zero, %zero) : (!open, i32, i32) -> !opened
    "ck.scatter_fragment"(%v, %window, %i) {axis = 0, reach = "far", distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !opened, i32) -> ()
    return
  }
}
