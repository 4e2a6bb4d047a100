// Pinned memory fragments, and barriers among them, get a fence on both sides; one between neighbours is enough.

// RUN: ckmlir-opt %s --ck-place-sched-barriers | filecheck %s
// RUN: ckmlir-opt %s --ck-place-sched-barriers --ck-place-sched-barriers | filecheck %s

!lds = !ck.lds<[64], f32>

// CHECK-LABEL: func.func @pinned
// CHECK:      vector.broadcast
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: arith.addf
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.wait"
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: return
func.func @pinned(%l: f32) attributes {ck.waves = 2 : i32} {
  %lds = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
  %v = vector.broadcast %l : f32 to vector<1xf32>
  "ck.lds_write"(%v, %lds) {ck.pinned, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_write"(%v, %lds) {ck.pinned, distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  %w = arith.addf %v, %v : vector<1xf32>
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  %r = "ck.lds_read"(%lds) {ck.pinned, distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}

// A wait without a barrier, as one wave has it, is fenced too.
// CHECK-LABEL: func.func @waits
// CHECK:      "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.wait"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: return
func.func @waits() attributes {ck.waves = 1 : i32} {
  %lds = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
  "ck.wait"() {copies = 0 : i64} : () -> ()
  %r = "ck.lds_read"(%lds) {ck.pinned, distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}

// Without a pinned fragment in its block, a barrier stays alone.
// CHECK-LABEL: func.func @free
// CHECK-NOT: ck.sched_barrier
func.func @free(%l: f32) attributes {ck.waves = 2 : i32} {
  %lds = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
  %v = vector.broadcast %l : f32 to vector<1xf32>
  "ck.lds_write"(%v, %lds) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.wait"() {lds = 0 : i64} : () -> ()
  "ck.barrier"() : () -> ()
  return
}
