// A copy from memory to LDS moves whole cells of 4 or 16 bytes, one behind the other from lane to lane, into rows without
// gaps; anything else is refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @shape(%w: !window) {
  // expected-error@+1 {{'ck.copy_to_lds' the window is [8, 64], the LDS tensor [64, 8]}}
  %0 = "ck.copy_to_lds"(%w) : (!window) -> !ck.lds<[64, 8], f16>
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @element(%w: !window) {
  // expected-error@+1 {{'ck.copy_to_lds' the window holds f16, the LDS tensor f32}}
  %0 = "ck.copy_to_lds"(%w) : (!window) -> !ck.lds<[8, 64], f32>
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @other_tensor(%w: !window, %l: !ck.lds<[8, 32], f16>) {
  // expected-error@+1 {{'ck.copy_fragment' the window is [8, 64] of f16, the LDS tensor [8, 32] of f16}}
  "ck.copy_fragment"(%w, %l) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1>} : (!window, !ck.lds<[8, 32], f16>) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @size(%w: !window, %l: !ck.lds<[8, 64], f16>) {
  // expected-error@+1 {{'ck.copy_fragment' no copy moves 8 bytes a lane; it moves 4, 16}}
  "ck.copy_fragment"(%w, %l) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!window, !ck.lds<[8, 64], f16>) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @lanes(%w: !window) {
  %l = "ck.lds_alloc"() {layout = "lengths 8x64 order 0,1 pitch 64"} : () -> !ck.lds<[8, 64], f16>
  // expected-error@+1 {{'ck.copy_fragment' the lanes of 'd0: 8@lane, d1: 8@lane 8@y0' do not follow each other in LDS of layout 'lengths 8x64 order 0,1 pitch 64'}}
  "ck.copy_fragment"(%w, %l) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1>} : (!window, !ck.lds<[8, 64], f16>) -> ()
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @gaps(%w: !window) {
  %l = "ck.lds_alloc"() {layout = "lengths 8x64 order 0,1 pitch 64 skew 8 every 4"} : () -> !ck.lds<[8, 64], f16>
  // expected-error@+1 {{'ck.copy_fragment' copies leave no gaps, as layout 'lengths 8x64 order 0,1 pitch 64 skew 8 every 4' has between rows}}
  "ck.copy_fragment"(%w, %l) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[8, 64], f16>) -> ()
  return
}

// -----

func.func @transposed(%l: !ck.lds<[64, 64], f16>) {
  // expected-error@+1 {{'ck.lds_read' a transposing read takes 4 elements of 16 bits, 8 elements of 8 bits or 16 elements of 4 bits, not 8 of 16}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>, transposed} : (!ck.lds<[64, 64], f16>) -> vector<8xf16>
  return
}

// -----

func.func @transposed_packed(%l: !ck.lds<[64, 64], i8>) {
  // expected-error@+1 {{'ck.lds_read' a transposing read takes 4 elements of 16 bits, 8 elements of 8 bits or 16 elements of 4 bits, not 8 of 4}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 64@y0", registers = array<i32: 0, 1, 2, 3>, transposed, format = "fp4"} : (!ck.lds<[64, 64], i8>) -> vector<4xi8>
  return
}

// -----

func.func @turned(%l: !ck.lds<[16, 64], i8>) {
  // expected-error@+1 {{'ck.from_lds' elements of [16, 64] bytes along d0 take [32, 32] along d1, not [16, 64]}}
  %0 = "ck.from_lds"(%l) {format = "fp4", before = 0, after = 1} : (!ck.lds<[16, 64], i8>) -> !ck.tile<[16, 64], i8, "?">
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @far(%w: !window, %i: !ck.tile<[8], i32, "?">) {
  // expected-error@+1 {{'ck.copy_to_lds' copies to LDS go through buffers, so their reach is near, not far}}
  %0 = "ck.copy_to_lds"(%w, %i) {axis = 0 : i64, reach = "far"} : (!window, !ck.tile<[8], i32, "?">) -> !ck.lds<[8, 64], f16>
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @too_few(%w: !window, %i: !ck.tile<[4], i32, "?">) {
  // expected-error@+1 {{'ck.copy_to_lds' axis 0 has 8 entries and takes as many indices, not [4]}}
  %0 = "ck.copy_to_lds"(%w, %i) {axis = 0 : i64} : (!window, !ck.tile<[4], i32, "?">) -> !ck.lds<[8, 64], f16>
  return
}

// -----

!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 64], strides=[64, 1]); view(d0, d1)", [8, 64]>
func.func @along_rows(%w: !window, %l: !ck.lds<[8, 64], f16>, %i: i32) {
  // expected-error@+1 {{'ck.copy_fragment' its registers follow axis 1, but have one index there}}
  "ck.copy_fragment"(%w, %l, %i) {axis = 1 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window, !ck.lds<[8, 64], f16>, i32) -> ()
  return
}
