// Two waves read what both have written: in a scheduled loop, and around one. `test_kept_lds_barriers.py` reads it.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%128], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%128], strides=[1]); view(d0)", [128]>
!lds = !ck.lds<[128], f32>
module attributes {ck.target = "gfx942"} {
func.func @one(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<2xf32> attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 128 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %kept = "ck.lds_alloc"() {name = "kept", layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  "ck.lds_write"(%x, %kept) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %before = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
    "ck.lds_write"(%t, %kept) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %ow = "ck.make_window"(%out, %i) : (!view, i32) -> !window
    "ck.store_fragment"(%before, %ow) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !window) -> ()
  } {ck.schedule = "schedule ahead 1; ahead load 2"}
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
func.func @outer(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) -> vector<2xf32> attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant 128 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %kept = "ck.lds_alloc"() {name = "kept", layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  "ck.lds_write"(%x, %kept) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  %z = arith.constant dense<0.0> : vector<1xf32>
  scf.for %o = %zero to %m step %one : i32 {
    %before = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
    %sum = scf.for %i = %zero to %n step %step iter_args(%a = %z) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %a, %t : vector<1xf32>
      scf.yield %s : vector<1xf32>
    } {ck.schedule = "schedule ahead 1; ahead load 1"}
    "ck.lds_write"(%sum, %kept) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %ow = "ck.make_window"(%out, %zero) : (!view, i32) -> !window
    "ck.store_fragment"(%before, %ow) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !window) -> ()
  }
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
}
