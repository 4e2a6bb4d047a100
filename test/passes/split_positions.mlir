// ck.inside splits into one test and ck.offsets into one offset for each vector that one access could take; ck.join_axes
// and ck.permute_axes move nothing.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%4], strides=[1]); d1 = right_pad(d0, length=?0%4, multiple=512); view(d1) align 4">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%4], strides=[1]); d1 = right_pad(d0, length=?0%4, multiple=512); view(d1) align 4", [512]>
!exists = !ck.tile<[512], i1, "d0: 2@y0 64@lane 4@y1">
!places = !ck.tile<[512], i32, "d0: 2@y0 64@lane 4@y1">

// CHECK-LABEL: func.func @positions
func.func @positions(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  // CHECK: %[[WINDOW:.*]] = "ck.make_window"
  %window = "ck.make_window"(%view, %o) : (!view, i32) -> !window
  // CHECK: %[[FIRST:.*]] = "ck.inside_fragment"(%[[WINDOW]]) {{.*}}registers = array<i32: 0>
  // CHECK: vector.broadcast %[[FIRST]] : i1 to vector<4xi1>
  // CHECK: "ck.inside_fragment"(%[[WINDOW]]) {{.*}}registers = array<i32: 4>
  // CHECK-NOT: inside_fragment
  %exists = "ck.inside"(%window) : (!window) -> !exists
  // CHECK: %[[OFFSET:.*]] = "ck.offset_fragment"(%[[WINDOW]]) {{.*}}registers = array<i32: 0>
  // CHECK: %[[OFFSETS:.*]] = vector.broadcast %[[OFFSET]] : i32 to vector<4xi32>
  // CHECK: %[[STEPS:.*]] = arith.constant dense<[0, 1, 2, 3]> : vector<4xi32>
  // CHECK: arith.addi %[[OFFSETS]], %[[STEPS]]
  // CHECK: "ck.offset_fragment"(%[[WINDOW]]) {{.*}}registers = array<i32: 4>
  // CHECK-NOT: offset_fragment
  %places = "ck.offsets"(%window) : (!window) -> !places
  return
}

// CHECK-LABEL: func.func @join
func.func @join(%p: !llvm.ptr<1>, %x: f32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f32, "global", "d0 = embed(offset, lengths=[256], strides=[1]); view(d0) align 4">
  %window = "ck.make_window"(%view, %o) : (!ck.view<f32, "global", "d0 = embed(offset, lengths=[256], strides=[1]); view(d0) align 4">, i32) -> !ck.window<f32, "global", "d0 = embed(offset, lengths=[256], strides=[1]); view(d0) align 4", [256]>
  // CHECK: %[[VECTOR:.*]] = vector.broadcast %{{.*}} : f32 to vector<4xf32>
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[128, 2], f32, "d0: 64@lane 2@y0, d1: 2@y1">
  %1 = "ck.join_axes"(%0) {axis = 0 : i64} : (!ck.tile<[128, 2], f32, "d0: 64@lane 2@y0, d1: 2@y1">) -> !ck.tile<[256], f32, "d0: 64@lane 4@y0">
  // CHECK-NEXT: "ck.store_fragment"(%[[VECTOR]]
  "ck.store"(%1, %window) : (!ck.tile<[256], f32, "d0: 64@lane 4@y0">, !ck.window<f32, "global", "d0 = embed(offset, lengths=[256], strides=[1]); view(d0) align 4", [256]>) -> ()
  return
}

// CHECK-LABEL: func.func @permute
func.func @permute(%p: !llvm.ptr<1>, %x: f32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 16">
  %window = "ck.make_window"(%view, %o, %o) : (!ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 16">, i32, i32) -> !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 16", [64, 4]>
  // CHECK: %[[VECTOR:.*]] = vector.broadcast %{{.*}} : f32 to vector<4xf32>
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[4, 64], f32, "d0: 4@y0, d1: 64@lane">
  %1 = "ck.permute_axes"(%0) {order = array<i32: 1, 0>} : (!ck.tile<[4, 64], f32, "d0: 4@y0, d1: 64@lane">) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  // CHECK-NEXT: "ck.store_fragment"(%[[VECTOR]]
  "ck.store"(%1, %window) : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">, !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 16", [64, 4]>) -> ()
  return
}
