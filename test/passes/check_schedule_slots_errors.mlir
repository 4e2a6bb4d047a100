// Which slot of LDS is meant where a loop hands its slots round follows from what branches hand on: a step may fill the
// slot that nobody reads any more. Slots that do not change, or share bytes, are refused.

// RUN: ckmlir-opt %s --ck-check-schedule --split-input-file --verify-diagnostics

!lds = !ck.lds<[128], f32>
func.func @in_turn(%x: vector<1xf32>, %n: i32) attributes {ck.waves = 2 : i32} {
  %s = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 512 : i64} : () -> !lds
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  cf.br ^bb1(%zero, %s, %t : i32, !lds, !lds)
^bb1(%i: i32, %now: !lds, %next: !lds):
  "ck.lds_write"(%x, %now) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  %y = "ck.lds_read"(%now) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.wait"() {lds = 0 : i64} : () -> ()
  %j = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %j, %n : i32
  cf.cond_br %more, ^bb1(%j, %next, %now : i32, !lds, !lds), ^bb2
^bb2:
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @always_the_same(%x: vector<1xf32>, %n: i32) attributes {ck.waves = 2 : i32} {
  %s = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 512 : i64} : () -> !lds
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  cf.br ^bb1(%zero, %s, %t : i32, !lds, !lds)
^bb1(%i: i32, %now: !lds, %next: !lds):
  // expected-error@+1 {{'ck.lds_write' overwrites LDS tensor 'tile' at bytes 4 to 507, which another wave may still be reading: no barrier lies between them [hazard]}}
  "ck.lds_write"(%x, %now) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-note@+1 {{the read is here, one time round the loop earlier}}
  %y = "ck.lds_read"(%now) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.wait"() {lds = 0 : i64} : () -> ()
  %j = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %j, %n : i32
  cf.cond_br %more, ^bb1(%j, %now, %next : i32, !lds, !lds), ^bb2
^bb2:
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @handed_on_twice(%x: vector<1xf32>, %n: i32) attributes {ck.waves = 2 : i32} {
  %s = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 512 : i64} : () -> !lds
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  cf.br ^bb1(%zero, %s, %t : i32, !lds, !lds)
^bb1(%i: i32, %now: !lds, %next: !lds):
  // expected-error@+1 {{'ck.lds_write' overwrites LDS tensor 'tile' at bytes 516 to 1019, which another wave may still be reading: no barrier lies between them [hazard]}}
  "ck.lds_write"(%x, %now) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-note@+1 {{the read is here, one time round the loop earlier}}
  %y = "ck.lds_read"(%now) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.wait"() {lds = 0 : i64} : () -> ()
  %j = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %j, %n : i32
  cf.cond_br %more, ^bb1(%j, %next, %next : i32, !lds, !lds), ^bb2
^bb2:
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @sharing_bytes(%x: vector<1xf32>, %n: i32) attributes {ck.waves = 2 : i32} {
  %s = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 256 : i64} : () -> !lds
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  cf.br ^bb1(%zero, %s, %t : i32, !lds, !lds)
^bb1(%i: i32, %now: !lds, %next: !lds):
  // expected-error@+1 {{'ck.lds_write' overwrites LDS tensor 'tile' at bytes 260 to 511, which another wave may still be reading: no barrier lies between them [hazard]}}
  "ck.lds_write"(%x, %now) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-note@+1 {{the read is here}}
  %y = "ck.lds_read"(%now) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.wait"() {lds = 0 : i64} : () -> ()
  %j = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %j, %n : i32
  cf.cond_br %more, ^bb1(%j, %next, %now : i32, !lds, !lds), ^bb2
^bb2:
  return
}
