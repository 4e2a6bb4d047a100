// In an outer loop a tensor gives its bytes back until a value of it begins again, so that the tensor of an epilogue lies over the
// buffers of the inner loop. Tensors of one innermost loop lie apart where there is room, and share bytes where there is none.

// RUN: ckmlir-opt %s --ck-allocate-lds --split-input-file | filecheck %s

!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
// CHECK-LABEL: func.func @epilogue
// CHECK-SAME: ck.lds_bytes = 256
// CHECK: name = "a", offset = 0
// CHECK: name = "out", offset = 0
func.func @epilogue(%v: vector<1xf32>, %c: i1) attributes {ck.waves = 1 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "a"} : () -> !lds
  %out = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "out"} : () -> !lds
  cf.br ^outer
^outer:
  "ck.lds_write"(%v, %a) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  cf.br ^inner
^inner:
  "ck.lds_read"(%a) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_write"(%v, %a) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  cf.cond_br %c, ^inner, ^epilogue
^epilogue:
  "ck.lds_write"(%v, %out) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%out) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.cond_br %c, ^outer, ^end
^end:
  return
}
}

// -----

!lds = !ck.lds<[128], f32>
!half = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
// A tile that is written and read by halves: its second half is not a new value, so the first one is still needed at the end, and what
// an inner loop writes in between lies elsewhere.
// CHECK-LABEL: func.func @by_halves
// CHECK-SAME: ck.lds_bytes = 768
func.func @by_halves(%v: vector<1xf32>, %c: i1) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  %other = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !half
  cf.br ^loop
^loop:
  "ck.lds_write"(%v, %t) {begins, distribution = "d0: 2@y0 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%t) {distribution = "d0: 2@y0 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.br ^next
^next:
  "ck.lds_write"(%v, %other) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !half) -> ()
  "ck.lds_read"(%other) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!half) -> vector<1xf32>
  cf.cond_br %c, ^next, ^last
^last:
  "ck.lds_write"(%v, %t) {distribution = "d0: 2@y0 64@lane", registers = array<i32: 1>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  cf.cond_br %c, ^loop, ^end
^end:
  return
}
}

// -----

!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
// One after the other in every step: there is room for both.
// CHECK-LABEL: func.func @in_one_step
// CHECK-SAME: ck.lds_bytes = 512
func.func @in_one_step(%v: vector<1xf32>, %c: i1) attributes {ck.waves = 1 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "a"} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "b"} : () -> !lds
  cf.br ^loop
^loop:
  "ck.lds_write"(%v, %a) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%a) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_write"(%v, %b) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%b) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.cond_br %c, ^loop, ^end
^end:
  return
}
}

// -----

!lds = !ck.lds<[256, 64], f16>
module attributes {ck.target = "gfx942"} {
// The same with 32 KB each and a third of these: only one place after the other fits.
// CHECK-LABEL: func.func @no_room
// CHECK-SAME: ck.lds_bytes = 32768
// CHECK: name = "a", offset = 0
// CHECK: name = "b", offset = 0
// CHECK: name = "c", offset = 0
func.func @no_room(%v: vector<8xf16>, %c: i1) attributes {ck.waves = 1 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 256x64 order 0,1 pitch 64", name = "a"} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 256x64 order 0,1 pitch 64", name = "b"} : () -> !lds
  %d = "ck.lds_alloc"() {layout = "lengths 256x64 order 0,1 pitch 64", name = "c"} : () -> !lds
  cf.br ^loop
^loop:
  "ck.lds_write"(%v, %a) {begins, distribution = "d0: 32@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xf16>, !lds) -> ()
  "ck.lds_read"(%a) {distribution = "d0: 32@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!lds) -> vector<8xf16>
  "ck.lds_write"(%v, %b) {begins, distribution = "d0: 32@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xf16>, !lds) -> ()
  "ck.lds_read"(%b) {distribution = "d0: 32@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!lds) -> vector<8xf16>
  "ck.lds_write"(%v, %d) {begins, distribution = "d0: 32@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xf16>, !lds) -> ()
  "ck.lds_read"(%d) {distribution = "d0: 32@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!lds) -> vector<8xf16>
  cf.cond_br %c, ^loop, ^end
^end:
  return
}
}
