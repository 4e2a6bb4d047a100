// Fragments whose vector, registers, distribution and tensor do not fit are refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!lds = !ck.lds<[64, 8], f16>
func.func @vector_length(%v: vector<2xf16>, %l: !lds) {
  // expected-error@+1 {{'ck.lds_write' 4 registers make a vector of as many elements, not vector<2xf16>}}
  "ck.lds_write"(%v, %l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<2xf16>, !lds) -> ()
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @no_vector(%v: f16, %l: !lds) {
  // expected-error@+1 {{'ck.lds_write' 1 registers make a vector of as many elements, not f16}}
  "ck.lds_write"(%v, %l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0>} : (f16, !lds) -> ()
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @element(%v: vector<2xf32>, %l: !lds) {
  // expected-error@+1 {{'ck.lds_write' the tensor holds f16, the vector f32}}
  "ck.lds_write"(%v, %l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !lds) -> ()
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @register_outside(%v: vector<2xf16>, %l: !lds) {
  // expected-error@+1 {{'ck.lds_write' registers [7, 8] are outside the distribution's 8}}
  "ck.lds_write"(%v, %l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 7, 8>} : (vector<2xf16>, !lds) -> ()
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @register_negative(%v: vector<2xf16>, %l: !lds) {
  // expected-error@+1 {{'ck.lds_write' registers [-1, 0] are outside the distribution's 8}}
  "ck.lds_write"(%v, %l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: -1, 0>} : (vector<2xf16>, !lds) -> ()
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @registers_apart(%l: !lds) {
  // expected-error@+1 {{'ck.lds_read' registers [0, 2] of 'd0: 64@lane, d1: 8@y0' are not neighbours along one dimension}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 2>} : (!lds) -> vector<2xf16>
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @registers_turned(%l: !lds) {
  // expected-error@+1 {{are not neighbours along one dimension}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 1, 0>} : (!lds) -> vector<2xf16>
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @size(%l: !lds) {
  // expected-error@+1 {{'ck.lds_read' no access moves 6 bytes a lane; it moves 1, 2, 4, 8, 12, 16}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1, 2>} : (!lds) -> vector<3xf16>
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @not_contiguous() {
  %l = "ck.lds_alloc"() {layout = "lengths 64x8 order 1,0 pitch 64"} : () -> !lds
  // expected-error@+1 {{'ck.lds_read' the registers follow dimension 1, in LDS dimension 0 is contiguous}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf16>
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @across_chunks() {
  %l = "ck.lds_alloc"() {layout = "lengths 64x8 order 0,1 pitch 8 swizzle chunk 2 shift 0 mask 3"} : () -> !lds
  // expected-error@+1 {{'ck.lds_read' 4 elements do not stay together in LDS, where chunks of 2 change places}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @lengths(%l: !lds) {
  // expected-error@+1 {{'ck.lds_read' the distribution covers [64, 4], the tensor has [64, 8]}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf16>
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @no_registers(%l: !lds) {
  // expected-error@+1 {{'ck.lds_read' attribute 'registers' must be array<i32: …>, not 0 : i64}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 8@y0", registers = 0 : i64} : (!lds) -> vector<2xf16>
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @empty_registers(%l: !lds) {
  // expected-error-re@+1 {{'ck.lds_read' .*registers}}
  %0 = "ck.lds_read"(%l) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32>} : (!lds) -> vector<2xf16>
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @load_lengths(%w: !window) {
  // expected-error@+1 {{'ck.load_fragment' the distribution covers [128], the tensor has [64]}}
  %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!window) -> vector<2xf32>
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @store_element(%w: !window, %v: vector<1xf16>) {
  // expected-error@+1 {{'ck.store_fragment' the tensor holds f32, the vector f16}}
  "ck.store_fragment"(%v, %w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf16>, !window) -> ()
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @atomic_kind(%w: !window, %v: vector<1xf32>) {
  // expected-error@+1 {{'ck.atomic_fragment' kind 'or' is not one of add, max}}
  "ck.atomic_fragment"(%v, %w) {kind = "or", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @atomic_before(%w: !window, %v: vector<1xf32>) {
  // expected-error@+1 {{'ck.atomic_fragment' takes vector<1xf32> and gives what was there before as one like it, not vector<1xi32>}}
  %0 = "ck.atomic_fragment"(%v, %w) {kind = "add", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> vector<1xi32>
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @atomic_copies(%w: !window, %v: vector<1xf32>) {
  // expected-error@+1 {{'ck.atomic_fragment' several threads hold each element, and only one of them updates and learns what was there before}}
  %0 = "ck.atomic_fragment"(%v, %w) {kind = "add", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> vector<1xf32>
  return
}

// -----

func.func @layout() {
  // expected-error@+1 {{'ck.lds_alloc' cannot read LDS layout 'rows'; write lengths 128x64 order 0,1 pitch 64}}
  %l = "ck.lds_alloc"() {layout = "rows"} : () -> !ck.lds<[64, 8], f16>
  return
}

// -----

func.func @layout_lengths() {
  // expected-error@+1 {{'ck.lds_alloc' the layout covers [64, 4], the tensor has [64, 8]}}
  %l = "ck.lds_alloc"() {layout = "lengths 64x4 order 0,1 pitch 4"} : () -> !ck.lds<[64, 8], f16>
  return
}

// -----

func.func @layout_pitch() {
  // expected-error@+1 {{'ck.lds_alloc' pitch 4 is shorter than a row of 8}}
  %l = "ck.lds_alloc"() {layout = "lengths 64x8 order 0,1 pitch 4"} : () -> !ck.lds<[64, 8], f16>
  return
}

// -----

func.func @name() {
  // expected-error@+1 {{'ck.lds_alloc' attribute 'name' must be a string, not 3 : i64}}
  %l = "ck.lds_alloc"() {layout = "lengths 64x8 order 0,1 pitch 8", name = 3 : i64} : () -> !ck.lds<[64, 8], f16>
  return
}

// -----

func.func @offset() {
  // expected-error@+1 {{'ck.lds_alloc' offset must not be negative}}
  %l = "ck.lds_alloc"() {layout = "lengths 64x8 order 0,1 pitch 8", offset = -16 : i64} : () -> !ck.lds<[64, 8], f16>
  return
}

// -----

func.func @mfma_unknown(%a: vector<4xf16>, %c: vector<4xf32>) {
  // expected-error@+1 {{'ck.mfma' there is no matrix instruction 'f32.16x16x17f16'}}
  %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x17f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  return
}

// -----

func.func @mfma_operand(%a: vector<4xf16>, %b: vector<8xf16>, %c: vector<4xf32>) {
  // expected-error@+1 {{'ck.mfma' f32.16x16x16f16 takes vector<4xf16>, not vector<8xf16>}}
  %0 = "ck.mfma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<8xf16>, vector<4xf32>) -> vector<4xf32>
  return
}

// -----

func.func @mfma_scalar(%a: f32, %c: vector<4xf32>) {
  // expected-error@+1 {{'ck.mfma' operands are vectors, not f32}}
  %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x4f32"} : (f32, f32, vector<4xf32>) -> vector<4xf32>
  return
}

// -----

func.func @mfma_accumulators(%a: vector<4xf16>, %c: vector<16xf32>) {
  // expected-error@+1 {{'ck.mfma' f32.16x16x16f16 adds to vector<4xf32>, not vector<16xf32>}}
  %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
  return
}

// -----

func.func @mfma_result(%a: vector<4xf16>, %c: vector<4xf32>) {
  // expected-error@+1 {{'ck.mfma' the result has the accumulator's type}}
  %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf16>
  return
}

// -----

func.func @exchange_mask(%v: vector<1xf32>) {
  // expected-error@+1 {{'ck.exchange' mask 3 is not a single bit of a 64-lane index}}
  %0 = "ck.exchange"(%v) {mask = 3 : i64} : (vector<1xf32>) -> vector<1xf32>
  return
}

// -----

func.func @exchange_type(%v: vector<1xf32>) {
  // expected-error@+1 {{'ck.exchange' an exchange keeps its type}}
  %0 = "ck.exchange"(%v) {mask = 4 : i64} : (vector<1xf32>) -> vector<2xf32>
  return
}

// -----

func.func @row_lane(%v: vector<1xf32>) {
  // expected-error@+1 {{'ck.row_lane' lane 16 is not in a row of 16, from 0}}
  %0 = "ck.row_lane"(%v) {lane = 16 : i64} : (vector<1xf32>) -> vector<1xf32>
  return
}

// -----

func.func @row_lane_type(%v: vector<1xf32>) {
  // expected-error@+1 {{'ck.row_lane' what is handed on keeps its type}}
  %0 = "ck.row_lane"(%v) {lane = 3 : i64} : (vector<1xf32>) -> vector<2xf32>
  return
}

// -----

func.func @half_type(%v: vector<1xf32>) {
  // expected-error@+1 {{'ck.half' a half keeps its type}}
  %0 = "ck.half"(%v) {upper} : (vector<1xf32>) -> vector<1xf16>
  return
}

// -----

func.func @coordinate_axis() {
  // expected-error@+1 {{'ck.thread_coordinate' axis 1 is not one of 1 dimensions}}
  %0 = "ck.thread_coordinate"() {distribution = "d0: 64@lane", axis = 1 : i64} : () -> i32
  return
}

// -----

func.func @coordinate_type() {
  // expected-error@+1 {{'ck.thread_coordinate' a coordinate is i32}}
  %0 = "ck.thread_coordinate"() {distribution = "d0: 64@lane", axis = 0 : i64} : () -> i64
  return
}

// -----

func.func @convert_length(%v: vector<4xf32>) {
  // expected-error@+1 {{'ck.convert' converts vectors of one length, not vector<4xf32> to vector<2xf16>}}
  %0 = "ck.convert"(%v) : (vector<4xf32>) -> vector<2xf16>
  return
}

// -----

func.func @convert_scalar(%v: f32) {
  // expected-error@+1 {{'ck.convert' converts vectors of one length, not f32 to f16}}
  %0 = "ck.convert"(%v) : (f32) -> f16
  return
}

// -----

func.func @workgroup_axis() {
  // expected-error@+1 {{'ck.workgroup_id' axis 3 is not 0 (x), 1 (y) or 2 (z)}}
  %0 = "ck.workgroup_id"() {axis = 3 : i64} : () -> i32
  return
}

// -----

func.func @workgroup_type() {
  // expected-error@+1 {{'ck.workgroup_id' a position is i32}}
  %0 = "ck.workgroup_id"() {axis = 0 : i64} : () -> index
  return
}

// -----

!lds = !ck.lds<[64, 8], f16>
func.func @begins_with_a_value(%v: vector<2xf16>, %l: !lds) {
  // expected-error@+1 {{'ck.lds_write' 'begins' stands alone, it has no value}}
  "ck.lds_write"(%v, %l) {begins = false, distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1>} : (vector<2xf16>, !lds) -> ()
  return
}

// -----

func.func @first_lane_vector(%v: vector<1xf32>) {
  // expected-error@+1 {{'ck.first_lane' takes i1, i32, i64 or f32, not vector<1xf32>}}
  %0 = "ck.first_lane"(%v) : (vector<1xf32>) -> vector<1xf32>
  return
}

// -----

func.func @first_lane_type(%v: f32) {
  // expected-error@+1 {{'ck.first_lane' the result has the operand's type}}
  %0 = "ck.first_lane"(%v) : (f32) -> i32
  return
}
