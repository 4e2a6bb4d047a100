// Scheduled fragments that race, trust what has not ended, part the waves of a workgroup, or need more than the chip has,
// are refused; the message names both operations.

// RUN: ckmlir-opt %s --ck-check-schedule --split-input-file --verify-diagnostics

!lds = !ck.lds<[128], f32>
func.func @no_barrier(%x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  // expected-note@+1 {{the write is here}}
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  // expected-error@+1 {{'ck.lds_read' reads LDS tensor 'tile' at bytes 4 to 507, which another wave may still be writing: no barrier lies between them [hazard]}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @own_bytes(%x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  %y = "ck.lds_read"(%t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @wait_too_weak(%x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  // expected-note@+1 {{the write is here}}
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 1 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-error@+1 {{a barrier lies between them, but a wave may pass it before its own write has ended; wait for lds = 0 before the barrier [wait]}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @round_the_loop(%x: vector<1xf32>, %n: i32) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 0 : i64} : () -> !lds
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  cf.br ^bb1(%zero : i32)
^bb1(%i: i32):
  // expected-error@+1 {{'ck.lds_write' overwrites LDS tensor 'tile' at bytes 4 to 507, which another wave may still be reading: no barrier lies between them [hazard]}}
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-note@+1 {{the read is here, one time round the loop earlier}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  %j = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %j, %n : i32
  cf.cond_br %more, ^bb1(%j : i32), ^bb2
^bb2:
  return
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>
func.func @own_copy(%p: !llvm.ptr<1>, %i: i32) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "tile", offset = 0 : i64} : () -> !lds
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  // expected-note@+1 {{the copy is here}}
  "ck.copy_fragment"(%w, %t) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.wait"() {copies = 1 : i64} : () -> ()
  // expected-error@+1 {{'ck.lds_read' reads LDS tensor 'tile' at bytes 0 to 255 while the wave's own copy there may be under way; wait for copies before [wait]}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.wait"() {copies = 0 : i64} : () -> ()
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @some_waves(%x: vector<1xf32>, %n: i32) attributes {ck.waves = 2 : i32} {
  // expected-note@+1 {{it depends on this}}
  %i = "ck.thread_coordinate"() {distribution = "d0: 2@wave 64@lane", axis = 0 : i64} : () -> i32
  %first = arith.cmpi slt, %i, %n : i32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %first, ^bb1, ^bb2
^bb1:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'ck.thread_coordinate', which differs between threads [uniform]}}
  "ck.barrier"() : () -> ()
  cf.br ^bb2
^bb2:
  "ck.barrier"() : () -> ()
  return
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @too_much_lds() attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{LDS tensor 'tile' takes bytes 65280 to 65791; gfx942 has 65536: use a smaller block or fewer buffers [lds]}}
    %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "tile", offset = 65280 : i64} : () -> !ck.lds<[128], f32>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @too_many_registers(%x: vector<300xf32>, %y: vector<300xf32>) attributes {ck.waves = 4 : i32} {
    // expected-error@+1 {{values of 600 vector registers are live at least; a wave of 4 in a workgroup has 512 on gfx942 [registers]}}
    %z = arith.addf %x, %y : vector<300xf32>
    return
  }
}

// -----

!lds = !ck.lds<[64], f32>
func.func @no_fence() attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "tile", offset = 0 : i64} : () -> !lds
  "ck.sched_barrier"() {mask = "none"} : () -> ()
  // expected-error@+1 {{no fence stands behind 'ck.lds_read', which the schedule pins: put a sched_barrier of mask none there [fence]}}
  %y = "ck.lds_read"(%t) {ck.pinned, distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  // expected-note@+1 {{'arith.addf' may change places with it}}
  %z = arith.addf %y, %y : vector<1xf32>
  return
}

// -----

func.func @a_loop(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-error@+1 {{is a loop of stages; run ck-pipeline-loops and what follows it before ck-check-schedule}}
  scf.for %i = %zero to %n step %one : i32 {
  }
  return
}

// -----

// Where a schedule drains, a wait by the number of copies behind is not enough, nor is one for all copies alone.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>
func.func @drains(%p: !llvm.ptr<1>, %i: i32) attributes {ck.waves = 1 : i32, ck.drains} {
  %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "tile", offset = 0 : i64} : () -> !lds
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  // expected-note@+1 {{the copy is here}}
  "ck.copy_fragment"(%w, %t) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.wait"() {copies = 0 : i64} : () -> ()
  // expected-error@+1 {{while the wave's own copy there may be under way; wait for copies before [wait]}}
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.wait"() {copies = 0 : i64, vector_memory = 0 : i64} : () -> ()
  %z = "ck.lds_read"(%t) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}
