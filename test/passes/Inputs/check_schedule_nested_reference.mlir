// Unscheduled programs with loops in loops that the tests of ck-check-schedule compare scheduled ones with.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>

module attributes {ck.target = "gfx942"} {
func.func @sums(%p: !llvm.ptr<1> {llvm.noalias}, %table: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant 64 : i32
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %all:2 = scf.for %o = %zero to %n step %one iter_args(%a = %x, %before = %x) -> (vector<1xf32>, vector<1xf32>) : i32 {
    %wide = arith.extsi %o : i32 to i64
    %place = llvm.getelementptr %table[%wide] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    %m = llvm.load %place invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
    %v = "ck.make_view"(%p, %m) : (!llvm.ptr<1>, i32) -> !view
    %r = scf.for %i = %zero to %m step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
      scf.yield %s : vector<1xf32>
    } {ck.schedule = "schedule ahead 1; ahead load 2"}
    %sum = arith.addf %a, %r : vector<1xf32>
    %both = arith.addf %before, %r : vector<1xf32>
    %ow = "ck.make_window"(%out, %o) : (!view, i32) -> !window
    "ck.store_fragment"(%both, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    scf.yield %sum, %r : vector<1xf32>, vector<1xf32>
  }
  return %all#0 : vector<1xf32>
}

func.func @through_lds(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %o = %zero to %n step %one : i32 {
    %kept = "ck.lds_alloc"() {name = "kept", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %kw = "ck.make_window"(%v, %o) : (!view, i32) -> !window
    %k = "ck.load_fragment"(%kw) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    "ck.lds_write"(%k, %kept) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %r = scf.for %i = %zero to %m step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
      %l = "ck.lds_alloc"() {name = "tile", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      "ck.lds_write"(%t, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      %u = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %z = "ck.lds_read"(%kept) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %y = arith.mulf %u, %z {ck.stage = "math"} : vector<1xf32>
      %s = arith.addf %c, %y {ck.stage = "math"} : vector<1xf32>
      scf.yield %s : vector<1xf32>
    } {ck.schedule = "schedule ahead 1; ahead load 2, to_lds 1; buffers 2"}
    %r2 = scf.for %i = %zero to %m step %step iter_args(%c = %r) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %z = "ck.lds_read"(%kept) {ck.stage = "math", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %y = arith.addf %t, %z {ck.stage = "math"} : vector<1xf32>
      %s = arith.mulf %c, %y {ck.stage = "math"} : vector<1xf32>
      scf.yield %s : vector<1xf32>
    } {ck.schedule = "schedule ahead 1; ahead load 1"}
    %ow = "ck.make_window"(%out, %o) : (!view, i32) -> !window
    "ck.store_fragment"(%r2, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  }
  return
}
}
