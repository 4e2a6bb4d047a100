// Unscheduled programs that the tests of ck-check-schedule compare scheduled ones with.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>


module attributes {ck.target = "gfx942"} {
func.func @sum(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule ahead 1; ahead load 1"}
  return %r : vector<1xf32>
}

func.func @in_place(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %i = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %n) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !view
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %t, %t {ck.stage = "math"} : vector<1xf32>
    %sv = "ck.make_view"(%p, %n) {ck.stage = "store"} : (!llvm.ptr<1>, i32) -> !view
    %sw = "ck.make_window"(%sv, %i) {ck.stage = "store"} : (!view, i32) -> !window
    "ck.store_fragment"(%s, %sw) {ck.stage = "store", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  }
  return
}

func.func @apart(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %i = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %n) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !view
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %t, %t {ck.stage = "math"} : vector<1xf32>
    %sv = "ck.make_view"(%q, %n) {ck.stage = "store"} : (!llvm.ptr<1>, i32) -> !view
    %sw = "ck.make_window"(%sv, %i) {ck.stage = "store"} : (!view, i32) -> !window
    "ck.store_fragment"(%s, %sw) {ck.stage = "store", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  } {ck.schedule = "schedule ahead 1; ahead load 1"}
  return
}

func.func @staged(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "to_lds", name = "tile", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %v = "ck.make_view"(%p, %n) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !view
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    "ck.lds_write"(%t, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %u = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = arith.addf %c, %u {ck.stage = "math"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule two 1; ahead load 2, to_lds 1; buffers 2"}
  return %r : vector<1xf32>
}
}
