// Tensors that are never live together get the same bytes; tensors that are live together lie apart, the largest first.

// RUN: ckmlir-opt %s --ck-allocate-lds --split-input-file | filecheck %s

module attributes {ck.target = "gfx942"} {
// The second is written after the last read of the first.
// CHECK-LABEL: func.func @one_after_the_other
// CHECK-SAME: ck.lds_bytes = 512
// CHECK: name = "first", offset = 0
// CHECK: name = "second", offset = 0
func.func @one_after_the_other(%v: vector<1xf32>, %w: vector<2xf32>) attributes {ck.waves = 1 : i32} {
  %first = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "first"} : () -> !ck.lds<[64], f32>
  %second = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "second"} : () -> !ck.lds<[128], f32>
  "ck.lds_write"(%v, %first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_read"(%first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  "ck.lds_write"(%w, %second) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !ck.lds<[128], f32>) -> ()
  "ck.lds_read"(%second) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[128], f32>) -> vector<2xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// The same accesses, but the first is read once more at the end.
// CHECK-LABEL: func.func @at_once
// CHECK-SAME: ck.lds_bytes = 768
// CHECK: name = "first", offset = 512
// CHECK: name = "second", offset = 0
func.func @at_once(%v: vector<1xf32>, %w: vector<2xf32>) attributes {ck.waves = 1 : i32} {
  %first = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "first"} : () -> !ck.lds<[64], f32>
  %second = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "second"} : () -> !ck.lds<[128], f32>
  "ck.lds_write"(%v, %first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_write"(%w, %second) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !ck.lds<[128], f32>) -> ()
  "ck.lds_read"(%second) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[128], f32>) -> vector<2xf32>
  "ck.lds_read"(%first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// Four copies of 20 bytes, each where the widest access may begin, and what is live with them behind the last.
// CHECK-LABEL: func.func @rooms
// CHECK-SAME: ck.lds_bytes = 384
// CHECK: name = "copies", offset = 256
// CHECK: name = "other", offset = 0
func.func @rooms(%v: vector<1xf32>) attributes {ck.waves = 4 : i32} {
  %copies = "ck.lds_alloc"() {layout = "lengths 5 order 0 pitch 5", name = "copies", rooms = 4 : i64} : () -> !ck.lds<[5], f32>
  %other = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "other"} : () -> !ck.lds<[64], f32>
  "ck.lds_write"(%v, %copies) {begins, distribution = "r: 4@wave 64@lane, d0: 5@y0", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[5], f32>) -> ()
  "ck.lds_write"(%v, %other) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_read"(%copies) {distribution = "r: 4@wave 64@lane, d0: 5@y0", registers = array<i32: 0>} : (!ck.lds<[5], f32>) -> vector<1xf32>
  "ck.lds_read"(%other) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// The same accesses, but the first is updated at the end, and what was there is fetched: nothing reads it behind that.
// CHECK-LABEL: func.func @fetched
// CHECK-SAME: ck.lds_bytes = 768
// CHECK: name = "first", offset = 512
// CHECK: name = "second", offset = 0
func.func @fetched(%v: vector<1xf32>, %w: vector<2xf32>, %i: i32) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %first = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "first"} : () -> !ck.lds<[64], f32>
  %second = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "second"} : () -> !ck.lds<[128], f32>
  "ck.lds_write"(%v, %first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_write"(%w, %second) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !ck.lds<[128], f32>) -> ()
  "ck.lds_read"(%second) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[128], f32>) -> vector<2xf32>
  %before = "ck.lds_update_fragment"(%v, %first, %i) {axis = 0 : i64, distribution = "d0: 64@lane", kind = "add", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>, i32) -> vector<1xf32>
  return %before : vector<1xf32>
}
}
