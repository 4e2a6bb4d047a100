// What a schedule's step lists, fragment by fragment, is the order of the steady loop; what stands between comes with it.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

// Two reads change places with two writes of another tensor; the fence, the priority, the barrier and the wait stand in
// the loop only.
// CHECK-LABEL: func.func @listed
// CHECK:      ^bb1:
// CHECK-NOT:  ck.sched_barrier
// CHECK-NOT:  ck.priority
// CHECK:      ^bb2(
// CHECK:      "ck.lds_write"({{.*}}registers = array<i32: 1>
// CHECK-NEXT: "ck.sched_barrier"() {mask = "valu|salu"}
// CHECK-NEXT: "ck.lds_write"({{.*}}registers = array<i32: 0>
// CHECK-NEXT: "ck.priority"() {level = 1 : i64}
// CHECK-NEXT: "ck.lds_read"({{.*}}registers = array<i32: 1>
// CHECK-NEXT: "ck.priority"() {level = 0 : i64}
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.lds_read"({{.*}}registers = array<i32: 0>
// CHECK:      "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.wait"() {vector_memory = 3 : i64}
// CHECK:      cf.cond_br
!lds = !ck.lds<[128], i32>
func.func @listed(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128"} : () -> !lds
    %j = arith.addi %i, %one {ck.stage = "w"} : i32
    %v = vector.broadcast %j {ck.stage = "w"} : i32 to vector<1xi32>
    "ck.lds_write"(%v, %l) {ck.stage = "w", distribution = "d0: 2@y0 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    "ck.lds_write"(%x, %l) {ck.stage = "w", distribution = "d0: 2@y0 64@lane", registers = array<i32: 1>} : (vector<1xi32>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 2@y0 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
    %b = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 2@y0 64@lane", registers = array<i32: 1>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; step w.1, fence(valu|salu), w.0, priority(1), r.1, priority(0), barrier, r.0, fence, wait(3)"}
  return
}

// -----

// Fragments run as far ahead as they say themselves: the first read of the next iteration, the second of this one. What
// has no effect comes before its first user at the latest.
// CHECK-LABEL: func.func @ahead
// CHECK:      ^bb1:
// CHECK:      "ck.lds_read"({{.*}}registers = array<i32: 0>
// CHECK-NOT:  "ck.lds_read"
// CHECK:      ^bb
// CHECK:      "ck.lds_read"({{.*}}registers = array<i32: 1>
// CHECK:      "ck.lds_read"({{.*}}registers = array<i32: 0>
func.func @ahead(%n: i32, %x: vector<1xi32>) -> vector<1xi32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %l = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128"} : () -> !ck.lds<[128], i32>
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<1xi32>) : i32 {
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 2@y0 64@lane", registers = array<i32: 0>} : (!ck.lds<[128], i32>) -> vector<1xi32>
    %b = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 2@y0 64@lane", registers = array<i32: 1>} : (!ck.lds<[128], i32>) -> vector<1xi32>
    %d = arith.addi %a, %b {ck.stage = "m"} : vector<1xi32>
    %e = arith.addi %c, %d {ck.stage = "m"} : vector<1xi32>
    scf.yield %e : vector<1xi32>
  } {ck.schedule = "schedule s 1; step r.1, m, r.0+1"}
  return %r : vector<1xi32>
}

// -----

// Clusters are fenced from each other, and a stage has its priority for as long as it runs.
// CHECK-LABEL: func.func @clusters
// CHECK:      ^bb2(%{{[0-9]+}}: i32):
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: vector.broadcast
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.priority"() {level = 2 : i64}
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: "ck.priority"() {level = 0 : i64}
!one = !ck.lds<[64], i32>
func.func @clusters(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !one
    %v = vector.broadcast %i {ck.stage = "w"} : i32 to vector<1xi32>
    "ck.lds_write"(%v, %l) {ck.stage = "w", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !one) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!one) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; fences clusters; priority r 2"}
  return
}
