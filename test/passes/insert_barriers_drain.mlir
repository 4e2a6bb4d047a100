// A schedule with `waits drain` waits for all accesses to memory where it waits for a copy to LDS: younger copies and loads
// end too, so that the order in which they land is no matter. What waits for no copy waits as without.

// RUN: ckmlir-opt %s --ck-pipeline-loops --ck-allocate-lds --ck-insert-barriers --ck-check-schedule | filecheck %s

!lds = !ck.lds<[128], f32>
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)", [128]>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: func.func @ring
  // CHECK-SAME: ck.drains
  // CHECK: "ck.copy_fragment"
  // CHECK: "ck.wait"() {copies = 0 : i64, lds = 0 : i64, vector_memory = 0 : i64}
  // CHECK-NEXT: "ck.barrier"
  // CHECK: "ck.lds_read"
  // CHECK-NOT: {copies = {{[1-9]}}
  func.func @ring(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 2 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    scf.for %i = %zero to %n step %one : i32 {
      %l = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128"} : () -> !lds
      %w = "ck.make_window"(%view, %i) {ck.stage = "load"} : (!view, i32) -> !window
      "ck.copy_fragment"(%w, %l) {begins, ck.stage = "load", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
      %r = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    } {ck.schedule = "schedule s 1; ahead load 2; buffers 3; waits drain"}
    return
  }
}
