// Where every tensor has an offset and the kernel its bytes, somebody has decided: layouts and offsets stay as they are.

// RUN: ckmlir-opt %s --ck-allocate-lds --split-input-file | filecheck %s

module attributes {ck.target = "gfx942"} {
// CHECK-LABEL: func.func @decided
// CHECK-SAME: ck.lds_bytes = 1024
// CHECK: layout = "lengths 64 order 0 pitch 64", name = "first", offset = 256
// CHECK: layout = "lengths 64 order 0 pitch 64", name = "second", offset = 512
func.func @decided(%v: vector<1xf32>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
  %first = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "first", offset = 256 : i64} : () -> !ck.lds<[64], f32>
  %second = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "second", offset = 512 : i64} : () -> !ck.lds<[64], f32>
  "ck.lds_write"(%v, %first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_write"(%v, %second) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_read"(%first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  "ck.lds_read"(%second) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// A tensor without an offset, such as a pass behind the allocation adds, has all of them placed anew.
// CHECK-LABEL: func.func @one_added
// CHECK-SAME: ck.lds_bytes = 512
// CHECK: name = "first", offset = 0
// CHECK: name = "second", offset = 256
func.func @one_added(%v: vector<1xf32>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
  %first = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "first", offset = 512 : i64} : () -> !ck.lds<[64], f32>
  %second = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "second"} : () -> !ck.lds<[64], f32>
  "ck.lds_write"(%v, %first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_write"(%v, %second) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_read"(%first) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  "ck.lds_read"(%second) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  return
}
}
