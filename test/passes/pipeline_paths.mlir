// A path that a schedule has for all tensors means what is loaded: what the loop computes of that is written to LDS.

// RUN: ckmlir-opt %s --ck-pipeline-loops | filecheck %s

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: func.func @computed
  // CHECK: %[[SUM:.*]] = arith.addf
  // CHECK: "ck.lds_write"(%[[SUM]]
  func.func @computed(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
    scf.for %i = %zero to %n step %step : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %a = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %sum = arith.addf %a, %a : vector<1xf32>
      %lds = "ck.lds_alloc"() {name = "sums", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
      "ck.lds_write"(%sum, %lds) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      %b = "ck.lds_read"(%lds) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %ow = "ck.make_window"(%out, %i) : (!view, i32) -> !window
      "ck.store_fragment"(%b, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    } {ck.schedule = "schedule s 1; ahead load 1; path direct"}
    return
  }
}
