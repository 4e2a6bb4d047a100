// Groups of waves one barrier apart: what two barriers separate is proved, over loops too.

// RUN: ckmlir-opt %s --ck-check-schedule | filecheck %s

// CHECK-LABEL: func.func @two_barriers
!lds = !ck.lds<[128], f32>
func.func @two_barriers(%x: vector<1xf32>, %n: i32) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  cf.br ^bb1(%zero : i32)
^bb1(%i: i32):
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  "ck.barrier"() : () -> ()
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  "ck.barrier"() : () -> ()
  %j = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %j, %n : i32
  cf.cond_br %more, ^bb1(%j : i32), ^bb2
^bb2:
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  return
}

// Groups of two waves that share no bytes with the other group need one barrier only.
// CHECK-LABEL: func.func @within_groups
func.func @within_groups(%x: vector<1xf32>) attributes {ck.waves = 4 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 256 order 0 pitch 256", name = "tile", offset = 0 : i64} : () -> !ck.lds<[256], f32>
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  "ck.lds_write"(%x, %t) {distribution = "d0: 4@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[256], f32>) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  %y = "ck.lds_read"(%t) {distribution = "d0: 2@wave 64@lane 2@wave", registers = array<i32: 0>} : (!ck.lds<[256], f32>) -> vector<1xf32>
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  return
}
