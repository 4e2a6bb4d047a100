// A tensor gets the first layout whose accesses have no bank conflicts by the chip's rules: plain rows if they have none, else
// a swizzle; without padding where the option forbids it, and then what conflicts remain are written down.

// RUN: ckmlir-opt %s --ck-allocate-lds --split-input-file | filecheck %s
// RUN: ckmlir-opt %s --ck-allocate-lds=padding=false --split-input-file | filecheck %s --check-prefix=BARE

module attributes {ck.target = "gfx942"} {
// Lanes write and read neighbours.
// CHECK-LABEL: func.func @plain
// CHECK: conflict_cycles = 0
// CHECK-SAME: layout = "lengths 64 order 0 pitch 64"
func.func @plain(%v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], f32>
  "ck.lds_write"(%v, %t) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  "ck.lds_read"(%t) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// Lanes read down the rows of a matrix operand: plain rows of 128 bytes would all start at the same bank.
// CHECK-LABEL: func.func @operand
// CHECK: conflict_cycles = 0
// CHECK-SAME: layout = "lengths 32x64 order 0,1 pitch 64 swizzle chunk 8
func.func @operand(%v: vector<8xf16>) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 32x64 order 0,1 pitch 64"} : () -> !ck.lds<[32, 64], f16>
  "ck.lds_write"(%v, %t) {distribution = "d0: 4@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xf16>, !ck.lds<[32, 64], f16>) -> ()
  "ck.lds_read"(%t) {distribution = "d0: 32@lane.1, d1: 4@y0 2@lane.0 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!ck.lds<[32, 64], f16>) -> vector<8xf16>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// Lanes read columns of single elements from rows too short for a swizzle of 32 of them: rows are padded.
// CHECK-LABEL: func.func @columns
// CHECK: conflict_cycles = 0
// CHECK-SAME: pitch 33
// BARE-LABEL: func.func @columns
// BARE: conflict_cycles = {{[1-9]}}
// BARE-SAME: pitch 32
func.func @columns(%v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 64x32 order 0,1 pitch 32"} : () -> !ck.lds<[64, 32], f32>
  "ck.lds_write"(%v, %t) {distribution = "d0: 32@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64, 32], f32>) -> ()
  "ck.lds_read"(%t) {distribution = "d0: 64@lane, d1: 32@y0", registers = array<i32: 0>} : (!ck.lds<[64, 32], f32>) -> vector<1xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx950"} {
// A column at an index that all lanes have in common is read as any is: plain rows would put it into one bank.
// CHECK-LABEL: func.func @column_at_an_index
// CHECK: conflict_cycles = 0
// CHECK-SAME: pitch 129
func.func @column_at_an_index(%v: vector<1xf32>, %i: i32) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 64x128 order 0,1 pitch 128"} : () -> !ck.lds<[64, 128], f32>
  "ck.lds_write"(%v, %t) {distribution = "d0: 64@y0, d1: 2@y1 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64, 128], f32>) -> ()
  "ck.lds_gather_fragment"(%t, %i) {axis = 1 : i64, distribution = "d0: 64@lane, d1: 1", registers = array<i32: 0>} : (!ck.lds<[64, 128], f32>, i32) -> vector<1xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// Rows that padding would make too long for the chip's LDS are not padded.
// CHECK-LABEL: func.func @no_room
// CHECK-SAME: ck.lds_bytes = 65536
// CHECK: conflict_cycles = {{[1-9]}}
// CHECK-SAME: layout = "lengths 512x32 order 0,1 pitch 32
// CHECK-NOT: pitch 33
func.func @no_room(%v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 512x32 order 0,1 pitch 32", name = "t"} : () -> !ck.lds<[512, 32], f32>
  "ck.lds_write"(%v, %t) {distribution = "d0: 256@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[512, 32], f32>) -> ()
  "ck.lds_read"(%t) {distribution = "d0: 8@y0 64@lane, d1: 32@y1", registers = array<i32: 0>} : (!ck.lds<[512, 32], f32>) -> vector<1xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// What is read by index stays together though its banks are not known: single elements that are written and read elsewhere
// would change places one by one.
// CHECK-LABEL: func.func @rows_by_index
// CHECK: layout = "lengths 16x8 order 0,1 pitch 8 swizzle chunk 4
func.func @rows_by_index(%v: vector<1xf32>, %i: i32) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 16x8 order 0,1 pitch 8"} : () -> !ck.lds<[16, 8], f32>
  "ck.lds_write"(%v, %t) {distribution = "d0: 16@lane, d1: 2@lane 2@y0 2@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[16, 8], f32>) -> ()
  "ck.lds_write"(%v, %t) {distribution = "d0: 16@lane, d1: 2@lane 2@y0 2@lane", registers = array<i32: 1>} : (vector<1xf32>, !ck.lds<[16, 8], f32>) -> ()
  "ck.lds_gather_fragment"(%t, %i) {axis = 0 : i64, distribution = "r: 2@lane, d0: 16@lane, d1: 2@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!ck.lds<[16, 8], f32>, i32) -> vector<4xf32>
  return
}
}
