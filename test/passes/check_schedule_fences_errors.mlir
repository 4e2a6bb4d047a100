// A fence that a schedule asks for by name has to stand where it asks for it, between the same fragments and on the same
// side of a barrier, and may let no more across; a stricter one will do, and arithmetic on indices may stand between.

// RUN: ckmlir-opt %s --ck-check-schedule --split-input-file --verify-diagnostics

func.func @there(%x: vector<1xi32>, %i: i32) attributes {ck.waves = 1 : i32} {
  %a = arith.addi %x, %x {ck.stage = "a"} : vector<1xi32>
  "ck.sched_barrier"() {mask = "none"} : () -> ()
  "ck.barrier"() : () -> ()
  "ck.sched_barrier"() {mask = "salu"} : () -> ()
  %next = arith.addi %i, %i : i32
  %b = arith.addi %x, %x {ck.fences = "fence(valu|salu), barrier, fence(valu|salu)", ck.stage = "b"} : vector<1xi32>
  return
}

// -----

func.func @removed(%x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  "ck.sched_barrier"() {mask = "none"} : () -> ()
  %a = arith.addi %x, %x {ck.stage = "a"} : vector<1xi32>
  // expected-error@+1 {{the schedule asks for 'fence' before 'arith.addi' of stage 'b', and of that 'fence' is not there: put a sched_barrier of mask none there [fence]}}
  %b = arith.addi %x, %x {ck.fences = "fence", ck.stage = "b"} : vector<1xi32>
  return
}

// -----

func.func @lets_more_across(%x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  %a = arith.addi %x, %x {ck.stage = "a"} : vector<1xi32>
  "ck.sched_barrier"() {mask = "valu|salu"} : () -> ()
  // expected-error@+1 {{of that 'fence(valu)' is not there: put a sched_barrier of mask valu there [fence]}}
  %b = arith.addi %x, %x {ck.fences = "fence(valu)", ck.stage = "b"} : vector<1xi32>
  return
}

// -----

func.func @on_the_other_side(%x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  %a = arith.addi %x, %x {ck.stage = "a"} : vector<1xi32>
  "ck.sched_barrier"() {mask = "none"} : () -> ()
  "ck.barrier"() : () -> ()
  // expected-error@+1 {{the schedule asks for 'barrier, fence' before 'arith.addi' of stage 'b', and of that 'fence' is not there}}
  %b = arith.addi %x, %x {ck.fences = "barrier, fence", ck.stage = "b"} : vector<1xi32>
  return
}

// -----

func.func @one_of_two(%x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  %a = arith.addi %x, %x {ck.stage = "a"} : vector<1xi32>
  "ck.barrier"() : () -> ()
  "ck.sched_barrier"() {mask = "none"} : () -> ()
  // expected-error@+1 {{the schedule asks for 'fence, barrier, fence' before 'arith.addi' of stage 'b'}}
  %b = arith.addi %x, %x {ck.fences = "fence, barrier, fence", ck.stage = "b"} : vector<1xi32>
  return
}
