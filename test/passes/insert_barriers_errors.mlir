// A kernel whose loops are not expanded, whose LDS has no addresses yet, or that does not say how many waves it has, is refused with
// the pass that has to run before or what has to be written.

// RUN: ckmlir-opt %s --ck-insert-barriers --split-input-file --verify-diagnostics

// expected-error@+1 {{holds loops of stages; run ck-pipeline-loops before ck-insert-barriers}}
func.func @loop(%n: i32) attributes {ck.waves = 2 : i32} {
  scf.for %i = %n to %n step %n : i32 {
  }
  return
}

// -----

!lds = !ck.lds<[128], f32>
func.func @no_offset(%v: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  // expected-error@+1 {{has no offset; run ck-allocate-lds before ck-insert-barriers}}
  %a = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  "ck.lds_write"(%v, %a) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  return
}

// -----

// expected-error@+1 {{`ck.waves = 4 : i32`}}
func.func @no_waves() {
  return
}
