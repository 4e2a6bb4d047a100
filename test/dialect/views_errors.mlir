// Views and windows that do not fit are refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%8, 1]); view(d0, d1)">
func.func @pointer(%p: !llvm.ptr<3>, %m: i32) {
  // expected-error@+1 {{'ck.make_view' a view in global memory takes !llvm.ptr<1>, not !llvm.ptr<3>}}
  %0 = "ck.make_view"(%p, %m, %m) : (!llvm.ptr<3>, i32, i32) -> !view
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%8, 1]); view(d0, d1)">
func.func @count(%p: !llvm.ptr<1>, %m: i32) {
  // expected-error@+1 {{has 2 run-time values, 1 are given}}
  %0 = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%8, 1]); view(d0, d1)">
func.func @type(%p: !llvm.ptr<1>, %m: i32, %n: i64) {
  // expected-error@+1 {{'ck.make_view' run-time lengths and strides are i32, not i64}}
  %0 = "ck.make_view"(%p, %m, %n) : (!llvm.ptr<1>, i32, i64) -> !view
  return
}

// -----

func.func @no_view(%p: !llvm.ptr<1>) {
  // expected-error@+1 {{'ck.make_view' expected a view, got f32}}
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> f32
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @origins(%p: !llvm.ptr<1>, %row: i32) {
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  // expected-error@+1 {{'ck.make_window' a window of 2 dimensions takes as many origins, not 1}}
  %1 = "ck.make_window"(%0, %row) : (!view, i32) -> !window
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @origin_type(%p: !llvm.ptr<1>, %row: i64) {
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  // expected-error@+1 {{'ck.make_window' origins are i32, not i64}}
  %1 = "ck.make_window"(%0, %row, %row) : (!view, i64, i64) -> !window
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @other_element(%p: !llvm.ptr<1>, %row: i32) {
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  // expected-error@+1 {{the window's element, space and descriptor must be its view's}}
  %1 = "ck.make_window"(%0, %row, %row) : (!view, i32, i32) -> !window
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16]>
func.func @rank(%p: !llvm.ptr<1>, %row: i32) {
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  // expected-error@+1 {{'ck.make_window' a window of 1 dimensions over a view of 2}}
  %1 = "ck.make_window"(%0, %row) : (!view, i32) -> !window
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @steps(%w: !window, %row: i32) {
  // expected-error@+1 {{'ck.move_window' a window of 2 dimensions moves by as many steps, not 1}}
  %1 = "ck.move_window"(%w, %row) : (!window, i32) -> !window
  return
}

// -----

!window = !ck.window<f16, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [16]>
func.func @step_type(%w: !window, %row: i64) {
  // expected-error@+1 {{'ck.move_window' steps are i32, not i64}}
  %1 = "ck.move_window"(%w, %row) : (!window, i64) -> !window
  return
}

// -----

!window = !ck.window<f16, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [16]>
func.func @moved_type(%w: !window, %row: i32) {
  // expected-error@+1 {{'ck.move_window' a moved window keeps its type}}
  %1 = "ck.move_window"(%w, %row) : (!window, i32) -> !ck.window<f16, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [8]>
  return
}
