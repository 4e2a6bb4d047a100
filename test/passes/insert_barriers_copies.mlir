// A read waits for the copies from memory to LDS that it needs and leaves later ones in flight, through the barrier too, and to
// the end of the kernel, where s_endpgm waits for them.

// RUN: ckmlir-opt %s --ck-insert-barriers | filecheck %s

!lds = !ck.lds<[128], f32>
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)", [128]>
// CHECK-LABEL: func.func @ring
// CHECK: "ck.copy_fragment"
// CHECK-NEXT: "ck.copy_fragment"
// CHECK-NEXT: "ck.wait"() {copies = 1 : i64, lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: return
func.func @ring(%p: !llvm.ptr<1>, %o: i32) attributes {ck.waves = 2 : i32} {
  %a = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  %b = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 512 : i64} : () -> !lds
  %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%view, %o) : (!view, i32) -> !window
  "ck.copy_fragment"(%w, %a) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.copy_fragment"(%w, %b) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
  "ck.lds_read"(%a) {distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  return
}
