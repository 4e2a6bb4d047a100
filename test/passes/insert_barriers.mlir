// A barrier, with a wait for the wave's own accesses before it, stands once between the writes of all waves and the first read of
// another wave's bytes, and once before they are written again; a workgroup of one wave has the same order,
// and waits for nothing.

// RUN: ckmlir-opt %s --ck-insert-barriers --split-input-file | filecheck %s

!lds = !ck.lds<[128], f32>
// Two tensors share the barrier; the loop comes back to its writes, so there is one before them as well.
// CHECK-LABEL: func.func @two_waves
// CHECK: cf.br
// CHECK: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: cf.cond_br
// CHECK-NOT: "ck.barrier"
func.func @two_waves(%v: vector<1xf32>, %c: i1) attributes {ck.waves = 2 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 512 : i64} : () -> !lds
  cf.br ^loop
^loop:
  "ck.lds_write"(%v, %a) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_write"(%v, %b) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%a) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_read"(%b) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.cond_br %c, ^loop, ^end
^end:
  return
}

// -----

!lds = !ck.lds<[64], f32>
// Its accesses complete in order; the barrier keeps the compiler, which looks at one lane, from changing that order.
// CHECK-LABEL: func.func @one_wave
// CHECK: "ck.lds_write"
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: return
func.func @one_wave(%v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", offset = 0 : i64} : () -> !lds
  "ck.lds_write"(%v, %a) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%a) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}

// -----

!lds = !ck.lds<[128], f32>
// Another tensor over the same bytes is as much a conflict as the tensor itself.
// CHECK-LABEL: func.func @shared_bytes
// CHECK: "ck.lds_read"
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_write"
func.func @shared_bytes(%v: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 256 : i64} : () -> !lds
  "ck.lds_read"(%a) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_write"(%v, %b) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  return
}
