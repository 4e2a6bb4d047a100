// Unscheduled programs whose loops and branches leave in LDS what later iterations read, for the tests of
// ck-check-schedule.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
// The even elements of a tensor hold what the iteration before has loaded, the odd ones a sum; the end reads both.
func.func @halves(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<2xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %kept = "ck.lds_alloc"() {name = "kept", layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  "ck.lds_write"(%x, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  "ck.lds_write"(%x, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (vector<1xf32>, !lds) -> ()
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %before = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    "ck.lds_write"(%t, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %sum = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
    %more = arith.addf %sum, %before : vector<1xf32>
    "ck.lds_write"(%more, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (vector<1xf32>, !lds) -> ()
    %ow = "ck.make_window"(%out, %i) : (!view, i32) -> !window
    "ck.store_fragment"(%before, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  } {ck.schedule = "schedule ahead 1; ahead load 2"}
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}

// A branch of an inner loop writes a tensor that both loops keep.
func.func @branch(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<2xf32>) -> vector<2xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %kept = "ck.lds_alloc"() {name = "kept", layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  "ck.lds_write"(%x, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !lds) -> ()
  scf.for %o = %zero to %m step %one : i32 {
    scf.for %i = %zero to %n step %step : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %early = arith.cmpi slt, %i, %o {ck.stage = "math"} : i32
      scf.if %early {
        %a = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
        %b = arith.addf %a, %t : vector<1xf32>
        "ck.lds_write"(%b, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      } else {
        "ck.lds_write"(%t, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (vector<1xf32>, !lds) -> ()
      } {ck.stage = "math"}
    } {ck.schedule = "schedule ahead 1; ahead load 1"}
  }
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}

// A loop that decides each time, by what LDS holds.
func.func @search(%x: vector<2xf32>, %n: i32, %seven: f32) -> vector<2xf32> attributes {ck.waves = 1 : i32} {
  %one = arith.constant 1 : i32
  %kept = "ck.lds_alloc"() {name = "kept", layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  "ck.lds_write"(%x, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !lds) -> ()
  %r = scf.while (%i = %n) : (i32) -> i32 {
    %a = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
    %f = "ck.first_lane"(%i) : (i32) -> i32
    %more = arith.cmpi slt, %f, %one : i32
    %twice = arith.addf %a, %a : vector<2xf32>
    "ck.lds_write"(%twice, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf32>, !lds) -> ()
    scf.condition(%more) %i : i32
  } do {
  ^bb0(%i: i32):
    %a = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
    "ck.lds_write"(%a, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %next = arith.addi %i, %one : i32
    scf.yield %next : i32
  }
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
}
