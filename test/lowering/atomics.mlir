// Atomic updates are one buffer instruction where the chip has it, and one through a pointer where only that exists.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<bf16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=8); view(d2, d1) align 8">
!window = !ck.window<bf16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=8); view(d2, d1) align 8", [2, 64]>

gpu.module @newer [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: llvm.func @in_a_buffer
  func.func @in_a_buffer(%p: !llvm.ptr<1>, %m: i32, %v: vector<2xbf16>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    // CHECK-NOT: llvm.cond_br
    // CHECK: rocdl.raw.ptr.buffer.atomic.fadd %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0 : vector<2xbf16>
    // CHECK-NOT: cond_br
    "ck.atomic_fragment"(%v, %window) {kind = "add", distribution = "d0: 2@lane, d1: 32@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xbf16>, !window) -> ()
    // CHECK: llvm.return
    return
  }
}

gpu.module @older [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @through_a_pointer
  func.func @through_a_pointer(%p: !llvm.ptr<1>, %m: i32, %v: vector<2xbf16>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    // CHECK: %[[ROW:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : i32
    // CHECK: cf.cond_br %[[ROW]], ^bb1, ^bb2
    // CHECK: ^bb1:
    // CHECK-NEXT: llvm.atomicrmw fadd %{{.*}}, %{{.*}} syncscope("agent") monotonic {rocdl.ignore_denormal_mode, rocdl.no_fine_grained_memory, rocdl.no_remote_memory}
    // CHECK-NEXT: cf.br ^bb2
    // CHECK: ^bb2:
    "ck.atomic_fragment"(%v, %window) {kind = "add", distribution = "d0: 2@lane, d1: 32@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xbf16>, !window) -> ()
    return
  }
}

// A row's number from memory is compared with their count, also where it passes the end of the buffer in any case.
gpu.module @by_index [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: llvm.func @by_index
  func.func @by_index(%p: !llvm.ptr<1>, %m: i32, %v: vector<2xbf16>, %i: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %window = "ck.make_window"(%view, %zero, %zero) : (!view, i32, i32) -> !window
    // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %arg3, %arg1 : i32
    // CHECK: %[[PLACE:.*]] = arith.select %[[INSIDE]], %{{.*}}, %{{.*}} : i32
    // CHECK: rocdl.raw.ptr.buffer.atomic.fadd %{{.*}}, %{{.*}}, %[[PLACE]], %{{.*}}, 0 : vector<2xbf16>
    "ck.atomic_scatter_fragment"(%v, %window, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@lane, d1: 32@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xbf16>, !window, i32) -> ()
    return
  }
}

// An update with a result gives what was there before, and zero to lanes whose element does not exist.
gpu.module @before [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @before
  func.func @before(%p: !llvm.ptr<1>, %m: i32, %v: vector<1xf32>, %out: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %view = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=8); view(d2, d1) align 8">
    %window = "ck.make_window"(%view, %zero, %zero) : (!ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=8); view(d2, d1) align 8">, i32, i32) -> !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=8); view(d2, d1) align 8", [2, 64]>
    // CHECK: %[[BEFORE:.*]] = rocdl.raw.ptr.buffer.atomic.fadd
    // CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %{{.*}}, %arg1 : i32
    // CHECK: %[[ZERO:.*]] = llvm.mlir.zero : f32
    // CHECK: arith.select %[[EXISTS]], %[[BEFORE]], %[[ZERO]] : f32
    %before = "ck.atomic_fragment"(%v, %window) {kind = "add", distribution = "d0: 2@y0, d1: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); d2 = right_pad(d0, length=?0, multiple=8); view(d2, d1) align 8", [2, 64]>) -> vector<1xf32>
    llvm.store %before, %out : vector<1xf32>, !llvm.ptr<1>
    return
  }
}
