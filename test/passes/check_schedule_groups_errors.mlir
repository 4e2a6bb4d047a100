// Groups of waves that meet in LDS although a barrier lies between in the program, or that arrive at unequal numbers of
// barriers, are refused; the message names the groups and both operations.

// RUN: ckmlir-opt %s --ck-check-schedule --split-input-file --verify-diagnostics

!lds = !ck.lds<[128], f32>
func.func @one_barrier(%x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  // expected-note@+1 {{the write is here}}
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-error@+1 {{'ck.lds_read' reads LDS tensor 'tile' at bytes 4 to 507, which another wave may still be writing: group 0 of the waves is 1 barrier too near to group 1, which comes behind it; put more between them [hazard]}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  return
}

// -----

// One barrier further ahead than two groups of the pass are.
!lds = !ck.lds<[128], f32>
func.func @further_ahead(%x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  // expected-note@+1 {{the write is here}}
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  "ck.barrier"() : () -> ()
  // expected-error@+1 {{group 0 of the waves is 1 barrier too near to group 1, which comes behind it}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  return
}

// -----

// The wait has to stand before the first of the two.
!lds = !ck.lds<[128], f32>
func.func @late_wait(%x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  // expected-note@+1 {{the write is here}}
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.barrier"() : () -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-error@+1 {{group 0 of the waves is 1 barrier too near to group 1, which comes behind it}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  return
}

// -----

func.func @never_meet() attributes {ck.waves = 2 : i32} {
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  // expected-error@+1 {{the kernel ends although group 1 of the waves has arrived at 1 barrier more than group 0: some waves wait for ever [uniform]}}
  return
}

// -----

func.func @on_one_way(%n: i32) attributes {ck.waves = 2 : i32} {
  %one = arith.constant 1 : i32
  %some = arith.cmpi slt, %n, %one : i32
  // expected-note@+1 {{the other way is here}}
  cf.cond_br %some, ^bb1, ^bb2
^bb1:
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  // expected-error@+1 {{here group 1 of the waves has arrived at 1 barrier more than group 0, on another way to the same block all groups of waves have arrived at equally many barriers [uniform]}}
  cf.br ^bb2
^bb2:
  return
}

// -----

func.func @round_the_loop(%n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note@+1 {{the other way is here}}
  cf.br ^bb1(%zero : i32)
^bb1(%i: i32):
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  %j = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %j, %n : i32
  // expected-error@+1 {{here group 0 of the waves has arrived at 1 barrier more than group 1, on another way to the same block all groups of waves have arrived at equally many barriers [uniform]}}
  cf.cond_br %more, ^bb1(%j : i32), ^bb2
^bb2:
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  return
}

// -----

func.func @unequal_groups() attributes {ck.waves = 3 : i32} {
  // expected-error@+1 {{3 waves do not form 2 groups of equal size [uniform]}}
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  return
}

// -----

func.func @two_numbers_of_groups() attributes {ck.waves = 4 : i32} {
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  // expected-error@+1 {{is for 4 groups of waves, another is for 2 [uniform]}}
  "ck.group_barrier"() {groups = 4 : i64, first = 0 : i64, last = 1 : i64} : () -> ()
  return
}

// -----

func.func @divergent(%n: i32) attributes {ck.waves = 2 : i32} {
  // expected-note@+1 {{it depends on this}}
  %i = "ck.thread_coordinate"() {distribution = "d0: 2@wave 64@lane", axis = 0 : i64} : () -> i32
  %first = arith.cmpi slt, %i, %n : i32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %first, ^bb1, ^bb2
^bb1:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'ck.thread_coordinate', which differs between threads [uniform]}}
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  cf.br ^bb2
^bb2:
  return
}
