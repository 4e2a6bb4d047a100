// A copy to LDS takes one LDS address a wave, and the swizzle on the side of the memory; each has a mark to wait by.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1) align 8", [16, 64]>

gpu.module @kernels [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: llvm.func @copy
  func.func @copy(%p: !llvm.ptr<1>) attributes {ck.waves = 2 : i32, ck.lds_bytes = 4096 : i64} {
    // CHECK: %[[WAVE:.*]] = rocdl.readfirstlane
    // CHECK: %[[LDS:.*]] = llvm.mlir.addressof @lds
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    %lds = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64 swizzle chunk 8 shift 0 mask 7", offset = 2048 : i64} : () -> !ck.lds<[16, 64], f16>
    // CHECK: arith.xori
    // CHECK: %[[STEP:.*]] = arith.constant 10 : i32
    // CHECK: %[[BYTES:.*]] = arith.shli %[[WAVE]], %[[STEP]]
    // CHECK: %[[START:.*]] = arith.constant 2048 : i32
    // CHECK: %[[OFFSET:.*]] = arith.addi %[[BYTES]], %[[START]]
    // CHECK: %[[PLACE:.*]] = llvm.getelementptr %[[LDS]][%[[OFFSET]]]
    // CHECK: rocdl.raw.ptr.buffer.load.async.lds %{{.*}}, %[[PLACE]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0
    // CHECK-NEXT: rocdl.asyncmark
    "ck.copy_fragment"(%window, %lds) {distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>) -> ()
    // CHECK-NEXT: rocdl.wait.asyncmark 3
    // CHECK-NEXT: rocdl.s.barrier
    "ck.wait"() {copies = 3 : i64} : () -> ()
    "ck.barrier"() : () -> ()
    return
  }
}

// At an index a lane's own row goes to its offset, and one that is none to the offset that no buffer reaches; the place in LDS
// is the wave's, whatever the index.
gpu.module @listed [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: llvm.func @row_by_a_list
  func.func @row_by_a_list(%p: !llvm.ptr<1>, %i: i32) attributes {ck.waves = 2 : i32, ck.lds_bytes = 4096 : i64} {
    // CHECK: %[[WAVE:.*]] = rocdl.readfirstlane
    // CHECK: %[[LDS:.*]] = llvm.mlir.addressof @lds
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    %lds = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64 swizzle chunk 8 shift 0 mask 7", offset = 2048 : i64} : () -> !ck.lds<[16, 64], f16>
    // CHECK: arith.xori
    // CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %arg1, %{{.*}} : i32
    // CHECK: %[[ROW:.*]] = arith.shli %arg1
    // CHECK: %[[OWN:.*]] = arith.addi %{{.*}}, %[[ROW]]
    // CHECK: %[[NONE:.*]] = arith.constant -2147483648 : i32
    // CHECK: %[[VECTOR:.*]] = arith.select %[[EXISTS]], %[[OWN]], %[[NONE]]
    // CHECK: %[[BYTES:.*]] = arith.shli %[[WAVE]]
    // CHECK: %[[OFFSET:.*]] = arith.addi %[[BYTES]]
    // CHECK: %[[PLACE:.*]] = llvm.getelementptr %[[LDS]][%[[OFFSET]]]
    // CHECK: rocdl.raw.ptr.buffer.load.async.lds %{{.*}}, %[[PLACE]], %{{.*}}, %[[VECTOR]], %{{.*}}, %{{.*}}, 0
    // CHECK-NEXT: rocdl.asyncmark
    "ck.copy_fragment"(%window, %lds, %i) {axis = 0 : i64, distribution = "d0: 2@wave 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[16, 64], f16>, i32) -> ()
    return
  }
}

gpu.module @more [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: llvm.func @transposed
  func.func @transposed() -> () attributes {ck.waves = 1 : i32, ck.lds_bytes = 2048 : i64} {
    %lds = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !ck.lds<[16, 64], f16>
    // CHECK: rocdl.ds.read.tr16.b64 %{{.*}} : <3> -> vector<4xf16>
    %0 = "ck.lds_read"(%lds) {distribution = "d0: 4@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>, transposed} : (!ck.lds<[16, 64], f16>) -> vector<4xf16>
    return
  }
}
