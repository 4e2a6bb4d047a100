// The indices of a gather lie like the entries of the axis that they stand for, however they are loaded.

// RUN: ckmlir-opt %s --ck-infer-distributions | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[99, 64], strides=[64, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[99, 64], strides=[64, 1]); view(d0, d1) align 8", [16, 64]>
!id_view = !ck.view<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4">
!id_window = !ck.window<i32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4", [16]>
!ids = !ck.tile<[16], i32, "?">
!tile = !ck.tile<[16, 64], f16, "?">

// CHECK-LABEL: func.func @gather
func.func @gather(%p: !llvm.ptr<1>) attributes {ck.waves = 2 : i32} {
  %o = arith.constant 0 : i32
  %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
  %id_view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !id_view
  %id_window = "ck.make_window"(%id_view, %o) : (!id_view, i32) -> !id_window
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[16], i32, "r: 8@lane.1, d0: 2@wave 8@lane.0">
  %ids = "ck.load"(%id_window) : (!id_window) -> !ids
  // CHECK: "ck.gather"{{.*}} -> !ck.tile<[16, 64], f16, "d0: 2@wave 8@lane, d1: 8@lane 8@y0">
  %tile = "ck.gather"(%window, %ids) {axis = 0} : (!window, !ids) -> !tile
  return
}

// CHECK-LABEL: func.func @scatter
func.func @scatter(%p: !llvm.ptr<1>) attributes {ck.waves = 2 : i32} {
  %o = arith.constant 0 : i32
  %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
  %id_view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !id_view
  %id_window = "ck.make_window"(%id_view, %o) : (!id_view, i32) -> !id_window
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[16], i32, "r: 8@lane.1, d0: 2@wave 8@lane.0">
  %ids = "ck.load"(%id_window) : (!id_window) -> !ids
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[16, 64], f16, "d0: 2@wave 8@lane, d1: 8@lane 8@y0">
  %tile = "ck.load"(%window) : (!window) -> !tile
  "ck.scatter"(%tile, %window, %ids) {axis = 0} : (!tile, !window, !ids) -> ()
  return
}
