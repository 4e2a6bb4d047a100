// Fences are placed in an expanded kernel: one with loops of stages is refused with the pass that has to run before.

// RUN: ckmlir-opt %s --ck-place-sched-barriers --verify-diagnostics

// expected-error@+1 {{holds loops of stages; run ck-pipeline-loops before ck-place-sched-barriers}}
func.func @loop(%n: i32) attributes {ck.waves = 2 : i32} {
  scf.for %i = %n to %n step %n : i32 {
  }
  return
}
