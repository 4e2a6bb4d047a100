// What stands behind a fence of the step says which fences its schedule asks for there, and on which side of a barrier; a
// fence at the end of the step belongs to what begins the next one.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

// Two steps: the second begins behind the fence that ends the first. What begins a block has nothing before it to be
// fenced from.
// CHECK-LABEL: func.func @marked
// CHECK:      ^bb2(
// CHECK:      "ck.lds_write"({{.*}}{ck.stage = "w"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "valu|salu"}
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.lds_read"({{.*}}{ck.fences = "fence(valu|salu), barrier, fence", ck.stage = "r"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK:      "ck.lds_write"({{.*}}{ck.fences = "fence", ck.stage = "w"
// CHECK:      "ck.lds_read"({{.*}}{ck.fences = "fence(valu|salu), barrier, fence", ck.stage = "r"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK:      cf.cond_br
!lds = !ck.lds<[64], i32>
func.func @marked(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    "ck.lds_write"(%x, %l) {ck.stage = "w", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; step w, fence(valu|salu), barrier, fence, r, fence; unroll 2"}
  return
}

// -----

// A barrier alone is not a fence: nothing is marked.
// CHECK-LABEL: func.func @unmarked
// CHECK-NOT:   ck.fences
!lds = !ck.lds<[64], i32>
func.func @unmarked(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    "ck.lds_write"(%x, %l) {ck.stage = "w", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; step w, barrier, r; priority r 1"}
  return
}
