// Where groups of waves are out of phase, as many barriers lie between accesses that conflict as the groups are apart and
// one; waits for copies stand before barriers that are there already, as late as is early enough for the group in front.

// RUN: ckmlir-opt %s --ck-insert-barriers --split-input-file | filecheck %s

// In phase one barrier, then two, then one again.
// CHECK-LABEL: func.func @as_many_as_needed
// CHECK:      "ck.lds_write"
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: "ck.group_barrier"() {first = 1
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.group_barrier"() {first = 0
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: return
!lds = !ck.lds<[128], f32>
func.func @as_many_as_needed(%x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  %a = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  "ck.lds_write"(%x, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  %b = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}

// -----

// Three barriers are there; the wait for the copy of %t stands before the second, so that two follow it, and leaves the
// copy of %u in flight until the end.
// CHECK-LABEL: func.func @waits_at_barriers
// CHECK:      "ck.group_barrier"() {first = 1
// CHECK-NEXT: "ck.copy_fragment"
// CHECK-NEXT: "ck.copy_fragment"
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.wait"() {copies = 1 : i64, lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: "ck.group_barrier"() {first = 0
// CHECK-NEXT: return
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)", [128]>
!lds = !ck.lds<[128], f32>
func.func @waits_at_barriers(%p: !llvm.ptr<1>, %i: i32) attributes {ck.waves = 2 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  %u = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 512 : i64} : () -> !lds
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  "ck.copy_fragment"(%w, %t) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.copy_fragment"(%w, %u) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.barrier"() : () -> ()
  "ck.barrier"() : () -> ()
  "ck.barrier"() : () -> ()
  %y = "ck.lds_read"(%t) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.group_barrier"() {groups = 2 : i64, first = 0 : i64, last = 0 : i64} : () -> ()
  return
}
