// A part that replaces another has its shape and element type and lies inside; the result is a tile like the whole.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!whole = !ck.tile<[64, 32], f32, "?">
!part = !ck.tile<[16, 32], f32, "?">
func.func @outside(%p: !part, %w: !whole) {
  // expected-error@+1 {{'ck.insert' [56, 72) is outside an axis of 64}}
  %0 = "ck.insert"(%p, %w) {axis = 0, start = 56} : (!part, !whole) -> !whole
  return
}

// -----

!whole = !ck.tile<[64, 32], f32, "?">
!part = !ck.tile<[16, 16], f32, "?">
func.func @other_axis(%p: !part, %w: !whole) {
  // expected-error@+1 {{'ck.insert' only axis 0 may shrink: [64, 32] to [16, 16]}}
  %0 = "ck.insert"(%p, %w) {axis = 0, start = 0} : (!part, !whole) -> !whole
  return
}

// -----

!whole = !ck.tile<[64, 32], f32, "?">
!part = !ck.tile<[16, 32], f16, "?">
func.func @element(%p: !part, %w: !whole) {
  // expected-error@+1 {{'ck.insert' f16 cannot replace f32; cast the part first}}
  %0 = "ck.insert"(%p, %w) {axis = 0, start = 0} : (!part, !whole) -> !whole
  return
}

// -----

!whole = !ck.tile<[64, 32], f32, "?">
!part = !ck.tile<[16, 32], f32, "?">
func.func @result(%p: !part, %w: !whole) {
  // expected-error@+1 {{'ck.insert' the result has the whole's type}}
  %0 = "ck.insert"(%p, %w) {axis = 0, start = 0} : (!part, !whole) -> !part
  return
}

// -----

!whole = !ck.tile<[64, 32], f32, "?">
!part = !ck.tile<[16, 32], f32, "?">
func.func @no_axis(%p: !part, %w: !whole) {
  // expected-error@+1 {{'ck.insert' axis 2 does not exist}}
  %0 = "ck.insert"(%p, %w) {axis = 2, start = 0} : (!part, !whole) -> !whole
  return
}
