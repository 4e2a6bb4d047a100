// A tile gathered or scattered through indices takes one i32 for each entry of an axis, lying with its entries.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
!tile = !ck.tile<[16, 32], f16, "?">
func.func @count(%w: !window, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.gather' axis 0 has 16 entries and takes as many indices, not [32]}}
  %0 = "ck.gather"(%w, %i) {axis = 0} : (!window, !ck.tile<[32], i32, "?">) -> !tile
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
!tile = !ck.tile<[16, 32], f16, "?">
func.func @type(%w: !window, %t: !tile, %i: !ck.tile<[16], f32, "?">) {
  // expected-error@+1 {{'ck.scatter' indices are i32, not f32}}
  "ck.scatter"(%t, %w, %i) {axis = 0} : (!tile, !window, !ck.tile<[16], f32, "?">) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
!tile = !ck.tile<[16, 32], f16, "?">
func.func @axis(%w: !window, %i: !ck.tile<[16], i32, "?">) {
  // expected-error@+1 {{'ck.gather' axis 2 is not one of the tile's 2 dimensions}}
  %0 = "ck.gather"(%w, %i) {axis = 2} : (!window, !ck.tile<[16], i32, "?">) -> !tile
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
!tile = !ck.tile<[16, 32], f16, "d0: 8@y0 2@lane, d1: 32@lane">
!indices = !ck.tile<[16], i32, "d0: 16@y0">
func.func @placement(%w: !window, %i: !indices) {
  // expected-error@+1 {{'ck.gather' indices for axis 0 of 'd0: 8@y0 2@lane, d1: 32@lane' lie as 'r: 32@lane.1, d0: 8@y0 2@lane.0', not 'd0: 16@y0'}}
  %0 = "ck.gather"(%w, %i) {axis = 0} : (!window, !indices) -> !tile
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
func.func @registers(%w: !window, %i: i32) {
  // expected-error@+1 {{'ck.gather_fragment' its registers follow axis 1, but have one index there}}
  %0 = "ck.gather_fragment"(%w, %i) {axis = 1, distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1>} : (!window, i32) -> vector<2xf16>
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
func.func @index(%w: !window, %i: i64, %v: vector<2xf16>) {
  // expected-error@+1 {{'ck.scatter_fragment' an index is i32, not i64}}
  "ck.scatter_fragment"(%v, %w, %i) {axis = 0, distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1>} : (vector<2xf16>, !window, i64) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
!tile = !ck.tile<[16, 32], f16, "?">
func.func @reach(%w: !window, %i: !ck.tile<[16], i32, "?">) {
  // expected-error@+1 {{'ck.gather' reach 'wide' is not one of close, near, far}}
  %0 = "ck.gather"(%w, %i) {axis = 0, reach = "wide"} : (!window, !ck.tile<[16], i32, "?">) -> !tile
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
!tile = !ck.tile<[16, 32], f16, "?">
func.func @kind(%w: !window, %t: !tile, %i: !ck.tile<[16], i32, "?">) {
  // expected-error@+1 {{'ck.atomic_scatter' kind 'min' is not one of add, max}}
  "ck.atomic_scatter"(%t, %w, %i) {axis = 0, kind = "min"} : (!tile, !window, !ck.tile<[16], i32, "?">) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
!tile = !ck.tile<[16, 32], f16, "?">
func.func @update_count(%w: !window, %t: !tile, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.atomic_scatter' axis 0 has 16 entries and takes as many indices, not [32]}}
  "ck.atomic_scatter"(%t, %w, %i) {axis = 0, kind = "add"} : (!tile, !window, !ck.tile<[32], i32, "?">) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
func.func @update_kind(%w: !window, %i: i32, %v: vector<2xf16>) {
  // expected-error@+1 {{'ck.atomic_scatter_fragment' kind 'min' is not one of add, max}}
  "ck.atomic_scatter_fragment"(%v, %w, %i) {axis = 0, kind = "min", distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1>} : (vector<2xf16>, !window, i32) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
func.func @update_registers(%w: !window, %i: i32, %v: vector<2xf16>) {
  // expected-error@+1 {{'ck.atomic_scatter_fragment' its registers follow axis 1, but have one index there}}
  "ck.atomic_scatter_fragment"(%v, %w, %i) {axis = 1, kind = "add", distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1>} : (vector<2xf16>, !window, i32) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
func.func @update_index(%w: !window, %i: i64, %v: vector<2xf16>) {
  // expected-error@+1 {{'ck.atomic_scatter_fragment' an index is i32, not i64}}
  "ck.atomic_scatter_fragment"(%v, %w, %i) {axis = 0, kind = "add", distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1>} : (vector<2xf16>, !window, i64) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [16, 32]>
func.func @update_element(%w: !window, %i: i32, %v: vector<2xf32>) {
  // expected-error@+1 {{'ck.atomic_scatter_fragment' the tensor holds f16, the vector f32}}
  "ck.atomic_scatter_fragment"(%v, %w, %i) {axis = 0, kind = "add", distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !window, i32) -> ()
  return
}
