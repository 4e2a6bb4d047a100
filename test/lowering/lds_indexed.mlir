// LDS at run-time places: every index is compared with the tensor's length, reads outside give zero, changes are left out.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!lds = !ck.lds<[100], i32>

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @histogram
  func.func @histogram(%v: vector<1xi32>, %i: i32, %f: vector<1xf32>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 800 : i64} {
    %0 = "ck.lds_alloc"() {layout = "lengths 100 order 0 pitch 100", offset = 0 : i64} : () -> !lds
    %1 = "ck.lds_alloc"() {layout = "lengths 100 order 0 pitch 100", offset = 400 : i64} : () -> !ck.lds<[100], f32>
    // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %arg1, %{{.*}} : i32
    // CHECK: cf.cond_br %[[INSIDE]], ^bb1, ^bb2
    // CHECK: ^bb1:
    // CHECK: llvm.atomicrmw add %{{.*}}, %{{.*}} syncscope("workgroup") monotonic : !llvm.ptr<3>, i32
    // CHECK: ^bb2:
    "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
    // CHECK: llvm.atomicrmw fmax %{{.*}}, %{{.*}} syncscope("workgroup") monotonic : !llvm.ptr<3>, f32
    "ck.lds_update_fragment"(%f, %1, %i) {axis = 0 : i64, kind = "max", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[100], f32>, i32) -> ()
    // CHECK: %[[SAFE:.*]] = arith.select %{{.*}}, %arg1, %{{.*}} : i32
    // CHECK: %[[READ:.*]] = llvm.load
    // CHECK: arith.select %{{.*}}, %[[READ]], %{{.*}} : vector<1xi32>
    %2 = "ck.lds_gather_fragment"(%0, %i) {axis = 0 : i64, distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds, i32) -> vector<1xi32>
    // CHECK: llvm.return
    return
  }
}
