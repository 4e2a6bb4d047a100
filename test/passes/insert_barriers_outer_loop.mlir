// Where bytes go from one tensor to another and back in the turns of an outer loop, waves meet at both hand-overs: no wave writes
// what another still reads, and copies that nobody reads have ended before another tensor's bytes are written there.

// RUN: ckmlir-opt %s --ck-insert-barriers --split-input-file | filecheck %s

!lds = !ck.lds<[128], f32>
// CHECK-LABEL: func.func @hand_over
// CHECK: ^bb1:
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_write"
// CHECK-NEXT: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: cf.cond_br
func.func @hand_over(%v: vector<1xf32>, %c: i1) attributes {ck.waves = 2 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  %out = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  cf.br ^outer
^outer:
  "ck.lds_write"(%v, %a) {begins, distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%a) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.lds_write"(%v, %out) {begins, distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%out) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.cond_br %c, ^outer, ^end
^end:
  return
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16", [128]>
!lds = !ck.lds<[128], f32>
// The copy behind the last read is one for a step that is never made; the epilogue waits for it.
// CHECK-LABEL: func.func @a_copy_too_many
// CHECK: ^bb2:
// CHECK: "ck.copy_fragment"
// CHECK: ^bb3:
// CHECK-NEXT: "ck.wait"() {copies = 0 : i64, lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_write"
func.func @a_copy_too_many(%p: !llvm.ptr<1>, %n: i32, %v: vector<1xf32>, %c: i1) attributes {ck.waves = 2 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 512 : i64} : () -> !lds
  %out = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 512 : i64} : () -> !lds
  %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%view, %n) : (!view, i32) -> !window
  cf.br ^outer
^outer:
  "ck.copy_fragment"(%w, %a) {begins, distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  cf.br ^inner
^inner:
  "ck.lds_read"(%a) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  "ck.copy_fragment"(%w, %b) {begins, distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  cf.cond_br %c, ^inner, ^epilogue
^epilogue:
  "ck.lds_write"(%v, %out) {begins, distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_read"(%out) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.cond_br %c, ^outer, ^end
^end:
  return
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16", [128]>
!lds = !ck.lds<[128], f32>
// Nor may the next turn of the outer loop copy over it while it is under way. The other half of a value's copies waits for nothing.
// CHECK-LABEL: func.func @copied_again
// CHECK: ^bb1:
// CHECK-NEXT: "ck.wait"() {copies = 0 : i64, lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.copy_fragment"
// CHECK-NEXT: "ck.copy_fragment"
// CHECK-NEXT: "ck.wait"() {copies = 0 : i64, lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_read"
func.func @copied_again(%p: !llvm.ptr<1>, %n: i32, %c: i1) attributes {ck.waves = 2 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 512 : i64} : () -> !lds
  %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%view, %n) : (!view, i32) -> !window
  cf.br ^outer
^outer:
  "ck.copy_fragment"(%w, %a) {begins, distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.copy_fragment"(%w, %a) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.lds_read"(%a) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.br ^behind
^behind:
  "ck.copy_fragment"(%w, %b) {begins, distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.copy_fragment"(%w, %a) {begins, distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  cf.cond_br %c, ^outer, ^end
^end:
  return
}
