// Scheduled loops in loops that do not compute what the unscheduled ones in Inputs/check_schedule_nested_reference.mlir do
// are refused: each takes a value of the wrong iteration of one of the loops, or from the wrong place in LDS.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --pass-pipeline='ck-pipeline-loops,ck-allocate-lds,ck-insert-barriers,ck-place-sched-barriers,ck-check-schedule{reference=%S/Inputs/check_schedule_nested_reference.mlir}'

// What the iteration of the outer loop before has left, not that of this one.
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
    // expected-error@+1 {{'arith.addf' does not take the result of 'scf.for' that it needs [dependence]}}
    %sum = arith.addf %a, %before : vector<1xf32>
    %both = arith.addf %before, %r : vector<1xf32>
    %ow = "ck.make_window"(%out, %o) : (!view, i32) -> !window
    "ck.store_fragment"(%both, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    scf.yield %sum, %r : vector<1xf32>, vector<1xf32>
  }
  return %all#0 : vector<1xf32>
}
}

// -----

// The inner loop starts with what the outer one carries.
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
    %r = scf.for %i = %zero to %m step %step iter_args(%c = %a) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      // expected-error@+1 {{'arith.addf' of stage 'math' does not take the result of 'scf.for' that it needs [dependence]}}
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
}

// -----

// The end of the inner loop is that of the next iteration of the outer one.
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
    %next = arith.addi %o, %one : i32
    %wide = arith.extsi %next : i32 to i64
    // expected-error@+1 {{'llvm.getelementptr' takes operands that the unscheduled program gives to no operation of this kind [dependence]}}
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
}

// -----

// The inner loop's index is one step off.
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
      %j = arith.addi %i, %step {ck.stage = "load"} : i32
      %w = "ck.make_window"(%v, %j) {ck.stage = "load"} : (!view, i32) -> !window
      // expected-error@+1 {{'ck.load_fragment' of stage 'load' runs for iteration i+1, which there may not be: limit the index to the last iteration's [order]}}
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
}

// -----

// The outer loop's index is taken for the inner one's.
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
      // expected-error@+1 {{'ck.make_window' of stage 'load' does not take the result of 'scf.for' that it needs [dependence]}}
      %w = "ck.make_window"(%v, %o) {ck.stage = "load"} : (!view, i32) -> !window
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
}

// -----

// Carried values of the outer loop change places.
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
    // expected-error@+1 {{'arith.addf' takes a value that depends on the way here: the result of 'scf.for' of iteration i of the outer loop or the result of 'arith.addf' of iteration i-1 of the outer loop [dependence]}}
    %both = arith.addf %before, %r : vector<1xf32>
    %ow = "ck.make_window"(%out, %o) : (!view, i32) -> !window
    "ck.store_fragment"(%both, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    scf.yield %r, %sum : vector<1xf32>, vector<1xf32>
  }
  return %all#0 : vector<1xf32>
}
}

// -----

// The result of the inner loop, one step too few.
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
    // expected-error@+1 {{here loop 2 runs or comes next, on another way to the same block loop 1 runs or comes next and 2 is over of the unscheduled program: what comes next is not the same [dependence]}}
    %rr:2 = scf.for %i = %zero to %m step %step iter_args(%c = %x, %d = %x) -> (vector<1xf32>, vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
      scf.yield %s, %c : vector<1xf32>, vector<1xf32>
    } {ck.schedule = "schedule ahead 1; ahead load 2"}
    %sum = arith.addf %a, %rr#1 : vector<1xf32>
    %both = arith.addf %before, %rr#0 : vector<1xf32>
    %ow = "ck.make_window"(%out, %o) : (!view, i32) -> !window
    "ck.store_fragment"(%both, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    scf.yield %sum, %rr#0 : vector<1xf32>, vector<1xf32>
  }
  return %all#0 : vector<1xf32>
}
}

// -----

// The second inner loop reads the first one's tensor, whose buffers hold the last steps.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
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
    %l = "ck.lds_alloc"() {name = "tile", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %r = scf.for %i = %zero to %m step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      "ck.lds_write"(%t, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      %u = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %z = "ck.lds_read"(%kept) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %y = arith.mulf %u, %z {ck.stage = "math"} : vector<1xf32>
      %s = arith.addf %c, %y {ck.stage = "math"} : vector<1xf32>
      scf.yield %s : vector<1xf32>
    } {ck.schedule = "schedule ahead 1; ahead load 2"}
    %r2 = scf.for %i = %zero to %m step %step iter_args(%c = %r) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      // expected-error@+1 {{'ck.lds_read' of stage 'math' reads elements of LDS tensor 'tile' that nothing has written on some path, or that something else has overwritten since [dependence]}}
      %z = "ck.lds_read"(%l) {ck.stage = "math", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
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

// -----

// The inner loops change places: the first takes what the second is to take.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
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
    %r2 = scf.for %i = %zero to %m step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %z = "ck.lds_read"(%kept) {ck.stage = "math", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %y = arith.addf %t, %z {ck.stage = "math"} : vector<1xf32>
      // expected-error@+1 {{'arith.mulf' of stage 'math' does not take the result of 'scf.for' that it needs [dependence]}}
      %s = arith.mulf %c, %y {ck.stage = "math"} : vector<1xf32>
      scf.yield %s : vector<1xf32>
    } {ck.schedule = "schedule ahead 1; ahead load 1"}
    %ow = "ck.make_window"(%out, %o) : (!view, i32) -> !window
    "ck.store_fragment"(%r2, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  }
  return
}
}

// -----

// A store of the outer loop that is missing.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
func.func @through_lds(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  // expected-error@+1 {{at this point 'ck.store_fragment' has not happened exactly once for every time that it is to [order]}}
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
  }
  return
}
}
