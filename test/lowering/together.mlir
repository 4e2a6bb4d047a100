// What is marked to come together is asked for before the first of it is used: each scalar passes through assembly that needs all
// of them, behind the last, and what uses it then uses that. Others are left alone.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<i32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<i32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @together
  // CHECK: %[[A:.*]] = llvm.load %arg0 invariant
  // CHECK: %[[EARLY:.*]] = arith.addi %[[A]], %[[A]]
  // CHECK: %[[B:.*]] = llvm.load %arg1 invariant
  // CHECK: %[[ALONE:.*]] = llvm.load %arg1 invariant
  // CHECK: %[[LANES:.*]] = rocdl.raw.ptr.buffer.load
  // CHECK: %[[A_THEN:.*]] = llvm.inline_asm "", "=s,0,s,v" %[[A]], %[[B]], %{{.*}} : (i32, i32, i32) -> i32
  // CHECK: %[[B_THEN:.*]] = llvm.inline_asm "", "=s,0,s,v" %[[B]], %[[A]], %{{.*}} : (i32, i32, i32) -> i32
  // CHECK: arith.addi %[[A_THEN]], %[[B_THEN]]
  // CHECK: arith.addi %[[ALONE]], %[[EARLY]]
  // CHECK-NOT: ck.together
  func.func @together(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %zero) : (!view, i32) -> !window
    %a = llvm.load %p invariant {alignment = 4 : i64, ck.together = 0 : i64} : !llvm.ptr<1> -> i32
    %early = arith.addi %a, %a : i32
    %b = llvm.load %q invariant {alignment = 4 : i64, ck.together = 0 : i64} : !llvm.ptr<1> -> i32
    %alone = llvm.load %q invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
    %lanes = "ck.load_fragment"(%window) {ck.together = 0 : i64, distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xi32>
    %sum = arith.addi %a, %b : i32
    %other = arith.addi %alone, %early : i32
    %both = arith.addi %sum, %other : i32
    %spread = vector.broadcast %both : i32 to vector<1xi32>
    %all = arith.addi %spread, %lanes : vector<1xi32>
    "ck.store_fragment"(%all, %window) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !window) -> ()
    return
  }
}
