// Groups of waves that cannot be out of phase, or would then meet in LDS, are refused with what is needed instead.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file --verify-diagnostics

func.func @uneven(%n: i32) attributes {ck.waves = 3 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' asks for 2 groups of waves; 3 waves do not form groups of equal size}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = "schedule s 1; step barrier, barrier; groups 2"}
  return
}

// -----

func.func @one_phase(%n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' asks for 2 groups of waves; barriers cut its step into 1 phase, which leaves them in phase: 2 are the fewest, put barriers into the step}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = "schedule s 1; step barrier; groups 2"}
  return
}

// -----

func.func @nested(%n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' asks for 2 groups of waves, and the loop holds another loop; only innermost loops can run out of phase}}
  scf.for %i = %zero to %n step %n : i32 {
    scf.for %j = %zero to %n step %n : i32 {
    } {ck.schedule = "schedule inner 1"}
  } {ck.schedule = "schedule s 1; step barrier, barrier; groups 2"}
  return
}

// -----

!lds = !ck.lds<[128], i32>
func.func @read_too_early(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  scf.for %i = %zero to %n step %n : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "a"} : () -> !lds
    // expected-note@+1 {{the write is here}}
    "ck.lds_write"(%x, %l) {ck.stage = "w", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    // expected-error@+1 {{schedule 's': stage 'r' reads LDS tensor 'a' while another group of waves may still write it: 1 barrier lies between them in the step, 2 groups need 2; move stages or barriers}}
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead w 1; buffers 2; step r, barrier, w, barrier; groups 2"}
  return
}

// -----

!lds = !ck.lds<[128], i32>
func.func @too_few_buffers(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  scf.for %i = %zero to %n step %n : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "a"} : () -> !lds
    // expected-error@+1 {{schedule 's': stage 'w' overwrites LDS tensor 'a' while another group of waves may still read it: no barriers lie between them in the step, 2 groups need 2; move stages or barriers, or 2 buffers}}
    "ck.lds_write"(%x, %l) {ck.stage = "w", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    // expected-note@+1 {{the read is here}}
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead w 1; step r, w, barrier, barrier; groups 2"}
  return
}

// -----

!lds = !ck.lds<[128], i32>
func.func @from_outside(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %l = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  scf.for %i = %zero to %n step %n : i32 {
    // expected-error@+1 {{schedule 's' asks for 2 groups of waves, and this writes an LDS tensor from outside the loop; allocate it inside}}
    "ck.lds_write"(%x, %l) {ck.stage = "w", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
  } {ck.schedule = "schedule s 1; step w, barrier, barrier; groups 2"}
  return
}
