// Digits are those of a merged dimension, one for each that it was merged of, and say whose they are.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)", [64, 64]>
func.func @axis(%v: !view, %n: i32, %wide: i64) {
  %w = "ck.make_window"(%v, %n, %n) : (!view, i32, i32) -> !window
  // expected-error@+1 {{'ck.with_digits' axis 0 of}}
  %0 = "ck.with_digits"(%w, %n, %n) {axis = 0, of = "origin", inside = 0} : (!window, i32, i32) -> !window
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)", [64, 64]>
func.func @count(%v: !view, %n: i32, %wide: i64) {
  %w = "ck.make_window"(%v, %n, %n) : (!view, i32, i32) -> !window
  // expected-error@+1 {{a dimension merged of 2 has as many digits, not 1}}
  %0 = "ck.with_digits"(%w, %n) {axis = 1, of = "origin", inside = 0} : (!window, i32) -> !window
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)", [64, 64]>
func.func @type(%v: !view, %n: i32, %wide: i64) {
  %w = "ck.make_window"(%v, %n, %n) : (!view, i32, i32) -> !window
  // expected-error@+1 {{digits are i32, not i64}}
  %0 = "ck.with_digits"(%w, %n, %wide) {axis = 1, of = "origin", inside = 0} : (!window, i32, i64) -> !window
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)", [64, 64]>
func.func @kind(%v: !view, %n: i32, %wide: i64) {
  %w = "ck.make_window"(%v, %n, %n) : (!view, i32, i32) -> !window
  // expected-error@+1 {{digits are of origin, wave, thread, quad, not 'row'}}
  %0 = "ck.with_digits"(%w, %n, %n) {axis = 1, of = "row", inside = 0} : (!window, i32, i32) -> !window
  return
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)", [64, 64]>
func.func @inside(%v: !view, %n: i32, %wide: i64) {
  %w = "ck.make_window"(%v, %n, %n) : (!view, i32, i32) -> !window
  // expected-error@+1 {{digits of the origin lie 0 elements inside, not 8}}
  %0 = "ck.with_digits"(%w, %n, %n) {axis = 1, of = "origin", inside = 8} : (!window, i32, i32) -> !window
  return
}
