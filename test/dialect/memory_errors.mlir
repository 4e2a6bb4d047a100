// Loads, stores and LDS transfers between tensors that differ are refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @load_shape(%w: !window) {
  // expected-error@+1 {{'ck.load' the window is [16, 16], the tile [16, 32]}}
  %0 = "ck.load"(%w) : (!window) -> !ck.tile<[16, 32], f16, "?">
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @load_element(%w: !window) {
  // expected-error@+1 {{'ck.load' the window holds f16, the tile f32; cast the tile first}}
  %0 = "ck.load"(%w) : (!window) -> !ck.tile<[16, 16], f32, "?">
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @store_element(%w: !window, %t: !ck.tile<[16, 16], f32, "?">) {
  // expected-error@+1 {{'ck.store' the window holds f16, the tile f32; cast the tile first}}
  "ck.store"(%t, %w) : (!ck.tile<[16, 16], f32, "?">, !window) -> ()
  return
}

// -----

func.func @store_no_window(%t: !ck.tile<[16, 16], f32, "?">, %w: f32) {
  // expected-error@+1 {{'ck.store' expected a window, got f32}}
  "ck.store"(%t, %w) : (!ck.tile<[16, 16], f32, "?">, f32) -> ()
  return
}

// -----

!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @atomic_kind(%w: !window, %t: !ck.tile<[16, 16], f32, "?">) {
  // expected-error@+1 {{'ck.atomic_update' kind 'xor' is not one of add, max}}
  "ck.atomic_update"(%t, %w) {kind = "xor"} : (!ck.tile<[16, 16], f32, "?">, !window) -> ()
  return
}

// -----

!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 16]>
func.func @atomic_without_kind(%w: !window, %t: !ck.tile<[16, 16], f32, "?">) {
  // expected-error@+1 {{'ck.atomic_update' needs the attribute 'kind', a string}}
  "ck.atomic_update"(%t, %w) : (!ck.tile<[16, 16], f32, "?">, !window) -> ()
  return
}

// -----

func.func @to_lds_shape(%t: !ck.tile<[16, 16], f32, "?">) {
  // expected-error@+1 {{'ck.to_lds' the LDS tensor is [16, 8], the tile [16, 16]}}
  %0 = "ck.to_lds"(%t) : (!ck.tile<[16, 16], f32, "?">) -> !ck.lds<[16, 8], f32>
  return
}

// -----

func.func @from_lds_element(%l: !ck.lds<[16, 16], f32>) {
  // expected-error@+1 {{'ck.from_lds' the LDS tensor holds f32, the tile f16}}
  %0 = "ck.from_lds"(%l) : (!ck.lds<[16, 16], f32>) -> !ck.tile<[16, 16], f16, "?">
  return
}

// -----

func.func @from_lds_of_a_tile(%l: !ck.tile<[16, 16], f32, "?">) {
  // expected-error@+1 {{'ck.from_lds' expected an LDS tensor, got !ck.tile<[16, 16], f32, "?">}}
  %0 = "ck.from_lds"(%l) : (!ck.tile<[16, 16], f32, "?">) -> !ck.tile<[16, 16], f32, "?">
  return
}

// -----

// Too many operands are refused before the verifier of the operation runs.
func.func @operands(%l: !ck.lds<[16, 16], f32>) {
  // expected-error@+1 {{op expects exactly 1 operands, but got 2}}
  %0 = "ck.from_lds"(%l, %l) : (!ck.lds<[16, 16], f32>, !ck.lds<[16, 16], f32>) -> !ck.tile<[16, 16], f32, "?">
  return
}
