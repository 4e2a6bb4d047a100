// Of loops in loops, the branches to the steps of those that hold no other say that their arguments advance; a value of an LDS
// tensor begins with the operation that fills it first, in the order of the step.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

// The steps of the inner loop: a turn of two, and one step of remainder.
// CHECK-LABEL: func.func @rates
// CHECK: cf.br ^bb[[OUTER:[0-9]+]](%c0_i32 : i32){{$}}
// CHECK: ^bb[[OUTER]](%{{.*}}: i32):
// CHECK: cf.cond_br %{{.*}}, ^bb[[STEADY:[0-9]+]](%{{.*}} : i32), ^bb[[REST:[0-9]+]](%{{.*}} : i32) {ck.advances = array<i32: 0, 1>}
// CHECK: ^bb[[STEADY]](%{{.*}}: i32):
// CHECK: cf.cond_br %{{.*}}, ^bb[[STEADY]](%{{.*}} : i32), ^bb[[END:[0-9]+]] {ck.advances = array<i32: 0>}
// CHECK: ^bb[[END]]:
// CHECK: cf.cond_br %{{.*}}, ^bb[[REST]](%{{.*}} : i32), ^bb{{[0-9]+}} {ck.advances = array<i32: 0>}
// CHECK: ^bb[[REST]](%{{.*}}: i32):
// CHECK: cf.cond_br %{{.*}}, ^bb[[OUTER]](%{{.*}} : i32), ^bb{{[0-9]+}}{{$}}
func.func @rates(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    scf.for %j = %zero to %n step %one : i32 {
      "ck.barrier"() : () -> ()
    } {ck.schedule = "schedule two 1; unroll 2"}
  }
  return
}

// -----

!lds = !ck.lds<[64], f32>
// The second half of the tile is written an iteration ahead of the first: the value begins there, in the prologue and in the loop.
// CHECK-LABEL: func.func @first_of_the_step
// CHECK: %[[LATE:.*]] = arith.constant dense<2.0
// CHECK: "ck.lds_write"(%[[LATE]], %{{.*}}) {begins,
// CHECK: ^bb{{[0-9]+}}(
// CHECK-NOT: begins
// CHECK: "ck.lds_write"
// CHECK: "ck.lds_read"
// CHECK: "ck.lds_write"(%[[LATE]], %{{.*}}) {begins,
// CHECK-NOT: begins
func.func @first_of_the_step(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %v = arith.constant dense<1.0> : vector<1xf32>
  %w = arith.constant dense<2.0> : vector<1xf32>
  scf.for %i = %zero to %n step %one : i32 {
    %t = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 128 order 0 pitch 128"} : () -> !ck.lds<[128], f32>
    "ck.lds_write"(%v, %t) {begins, ck.stage = "fill", distribution = "d0: 2@y0 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[128], f32>) -> ()
    "ck.lds_write"(%w, %t) {ck.stage = "fill", distribution = "d0: 2@y0 64@lane", registers = array<i32: 1>} : (vector<1xf32>, !ck.lds<[128], f32>) -> ()
    %r = "ck.lds_read"(%t) {ck.stage = "use", distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[128], f32>) -> vector<2xf32>
  } {ck.schedule = "schedule halves 1; step fill.0, use, fill.1+1"}
  return
}

// -----

// Two values of one tensor in a body: which operation fills which is not known once they may change places, so nothing is said.
// CHECK-LABEL: func.func @two_values
// CHECK-NOT: begins
func.func @two_values(%n: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], f32>
    "ck.lds_write"(%v, %t) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
    "ck.lds_write"(%v, %t) {begins, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
  }
  return
}
