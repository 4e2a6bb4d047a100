// With `slots carried` a loop hands its LDS buffers round: one step, whatever their number, that takes them as arguments
// and hands them on in turn; that of the current iteration comes first.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

!lds = !ck.lds<[64], f32>

// Three buffers, of which the write fills the next one: iteration 0 fills slot 0 before the loop, and the loop begins
// with slot 0.
// CHECK-LABEL: func.func @three
// CHECK: %[[S0:.*]] = "ck.lds_alloc"
// CHECK: %[[S1:.*]] = "ck.lds_alloc"
// CHECK: %[[S2:.*]] = "ck.lds_alloc"
// CHECK: "ck.lds_write"(%{{.*}}, %[[S0]])
// CHECK: cf.br ^[[STEP:bb[0-9]+]](%{{.*}}, %{{.*}}, %[[S0]], %[[S1]], %[[S2]] :
// CHECK: ^[[STEP]](%{{.*}}: i32, %{{.*}}: vector<1xf32>, %[[A:.*]]: !ck.lds<[64], f32>, %[[B:.*]]: !ck.lds<[64], f32>, %[[C:.*]]: !ck.lds<[64], f32>):
// CHECK: "ck.lds_write"(%{{.*}}, %[[B]])
// CHECK: "ck.lds_read"(%[[A]])
// CHECK-NOT: "ck.lds_read"
// CHECK: cf.cond_br %{{.*}}, ^[[STEP]](%{{.*}}, %{{.*}}, %[[B]], %[[C]], %[[A]] :
// CHECK-NOT: "ck.lds_read"
// CHECK: return
func.func @three(%n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "t"} : () -> !lds
    "ck.lds_write"(%x, %t) {ck.stage = "write", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %l = "ck.lds_read"(%t) {ck.stage = "read", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = arith.addf %c, %l {ck.stage = "read"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead write 1; buffers 3; step write, read; slots carried"}
  return %r : vector<1xf32>
}

// -----

!lds = !ck.lds<[64], f32>

// Where a turn has two steps (`unroll 2`) the second one takes the next slot, and the loop is handed the one behind.
// CHECK-LABEL: func.func @two_steps
// CHECK: ^[[STEP:bb[0-9]+]](%{{.*}}: i32, %{{.*}}: vector<1xf32>, %[[A:.*]]: !ck.lds<[64], f32>, %[[B:.*]]: !ck.lds<[64], f32>, %[[C:.*]]: !ck.lds<[64], f32>):
// CHECK: "ck.lds_write"(%{{.*}}, %[[B]])
// CHECK: "ck.lds_read"(%[[A]])
// CHECK: "ck.lds_write"(%{{.*}}, %[[C]])
// CHECK: "ck.lds_read"(%[[B]])
// CHECK: cf.cond_br %{{.*}}, ^[[STEP]](%{{.*}}, %{{.*}}, %[[C]], %[[A]], %[[B]] :
// What is left behind the loop takes what it was handed.
// CHECK: cf.cond_br %{{.*}}, ^[[REST:bb[0-9]+]](%{{.*}}, %{{.*}}, %[[C]], %[[A]], %[[B]] :
// CHECK: ^[[REST]](%{{.*}}: i32, %{{.*}}: vector<1xf32>, %[[FIRST:[0-9]+]]: !ck.lds<[64], f32>,
// CHECK: "ck.lds_read"(%[[FIRST]])
func.func @two_steps(%n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "t"} : () -> !lds
    "ck.lds_write"(%x, %t) {ck.stage = "write", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %l = "ck.lds_read"(%t) {ck.stage = "read", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = arith.addf %c, %l {ck.stage = "read"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead write 1; buffers 3; step write, read; unroll 2; slots carried"}
  return %r : vector<1xf32>
}
