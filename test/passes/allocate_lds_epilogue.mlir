// A tensor of the epilogue lies over the buffers of the loop before it; what the loop still reads in its next turn does not.

// RUN: ckmlir-opt %s --ck-allocate-lds --split-input-file | filecheck %s

!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
// Both buffers are written ahead for the next turn, so both live through the whole loop; behind it neither does.
// CHECK-LABEL: func.func @loop_and_epilogue
// CHECK-SAME: ck.lds_bytes = 512
// CHECK: name = "ring", offset = 0
// CHECK: name = "ring", offset = 256
// CHECK: name = "out", offset = 0
func.func @loop_and_epilogue(%v: vector<1xf32>, %c: i1) attributes {ck.waves = 1 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "ring"} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "ring"} : () -> !lds
  %out = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "out"} : () -> !lds
  "ck.lds_write"(%v, %a) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  cf.br ^loop
^loop:
  "ck.lds_read"(%a) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_write"(%v, %b) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%b) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_write"(%v, %a) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  cf.cond_br %c, ^loop, ^epilogue
^epilogue:
  "ck.lds_write"(%v, %out) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%out) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}
}

// -----

!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
// The table is written before the loop and read in every turn: what the loop writes behind that read lies apart.
// CHECK-LABEL: func.func @live_round_the_loop
// CHECK-SAME: ck.lds_bytes = 512
// CHECK: name = "table", offset = 0
// CHECK: name = "scratch", offset = 256
func.func @live_round_the_loop(%v: vector<1xf32>, %c: i1) attributes {ck.waves = 1 : i32} {
  %table = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "table"} : () -> !lds
  %scratch = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "scratch"} : () -> !lds
  "ck.lds_write"(%v, %table) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  cf.br ^loop
^loop:
  "ck.lds_read"(%table) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_write"(%v, %scratch) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%scratch) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.cond_br %c, ^loop, ^end
^end:
  return
}
}
