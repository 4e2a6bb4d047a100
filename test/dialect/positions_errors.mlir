// Operations that tell where elements lie, and that join or reorder dimensions, say what their types lack.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

func.func @element(%w: !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>) {
  // expected-error@+1 {{'ck.inside' gives i1, not i32}}
  %0 = "ck.inside"(%w) : (!ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>) -> !ck.tile<[64], i32, "?">
  return
}

// -----

func.func @lengths(%w: !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>) {
  // expected-error@+1 {{'ck.offsets' the window is [64], the tile [32]}}
  %0 = "ck.offsets"(%w) : (!ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>) -> !ck.tile<[32], i32, "?">
  return
}

// -----

func.func @last_axis(%t: !ck.tile<[8, 4], f32, "?">) {
  // expected-error@+1 {{'ck.join_axes' axis 1 and the one behind it are not both among the tile's 2 dimensions}}
  %0 = "ck.join_axes"(%t) {axis = 1 : i64} : (!ck.tile<[8, 4], f32, "?">) -> !ck.tile<[32], f32, "?">
  return
}

// -----

func.func @joined_lengths(%t: !ck.tile<[8, 4], f32, "?">) {
  // expected-error@+1 {{'ck.join_axes' joined, [8, 4] of f32 is [32] of f32, not [16] of f32}}
  %0 = "ck.join_axes"(%t) {axis = 0 : i64} : (!ck.tile<[8, 4], f32, "?">) -> !ck.tile<[16], f32, "?">
  return
}

// -----

func.func @joined_distribution(%t: !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) {
  // expected-error@+1 {{'ck.join_axes' joined it lies as 'd0: 64@lane 4@y0', not 'd0: 4@y0 64@lane'}}
  %0 = "ck.join_axes"(%t) {axis = 0 : i64} : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[256], f32, "d0: 4@y0 64@lane">
  return
}

// -----

func.func @no_order(%t: !ck.tile<[8, 4], f32, "?">) {
  // expected-error@+1 {{'ck.permute_axes' [1, 1] is not an order of the tile's 2 dimensions}}
  %0 = "ck.permute_axes"(%t) {order = array<i32: 1, 1>} : (!ck.tile<[8, 4], f32, "?">) -> !ck.tile<[4, 4], f32, "?">
  return
}

// -----

func.func @order_missing(%t: !ck.tile<[8, 4], f32, "?">) {
  // expected-error@+1 {{'ck.permute_axes' needs the attribute 'order', array<i32: …>}}
  %0 = "ck.permute_axes"(%t) : (!ck.tile<[8, 4], f32, "?">) -> !ck.tile<[4, 8], f32, "?">
  return
}

// -----

func.func @permuted_lengths(%t: !ck.tile<[8, 4, 2], f32, "?">) {
  // expected-error@+1 {{'ck.permute_axes' [8, 4, 2] of f32 in the order [2, 0, 1] is [2, 8, 4] of f32, not [2, 4, 8] of f32}}
  %0 = "ck.permute_axes"(%t) {order = array<i32: 2, 0, 1>} : (!ck.tile<[8, 4, 2], f32, "?">) -> !ck.tile<[2, 4, 8], f32, "?">
  return
}

// -----

func.func @permuted_distribution(%t: !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) {
  // expected-error@+1 {{'ck.permute_axes' in this order it lies as 'd0: 4@y0, d1: 64@lane', not 'd0: 4@lane, d1: 16@lane 4@y0'}}
  %0 = "ck.permute_axes"(%t) {order = array<i32: 1, 0>} : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[4, 64], f32, "d0: 4@lane, d1: 16@lane 4@y0">
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @several_registers(%w: !window) {
  // expected-error@+1 {{'ck.inside_fragment' a position is one register's, not 2}}
  %0 = "ck.inside_fragment"(%w) {distribution = "r: 2@lane, d0: 32@lane 2@y0", registers = array<i32: 0, 1>} : (!window) -> i1
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @type_of_an_offset(%w: !window) {
  // expected-error@+1 {{'ck.offset_fragment' the result is i32, not i64}}
  %0 = "ck.offset_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> i64
  return
}
