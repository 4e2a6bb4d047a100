// What an iteration leaves in LDS for the next one is refused where it is not what the unscheduled programs in
// Inputs/check_schedule_kept_lds_reference.mlir leave there.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --pass-pipeline='ck-pipeline-loops,ck-allocate-lds,ck-insert-barriers,ck-place-sched-barriers,ck-check-schedule{reference=%S/Inputs/check_schedule_kept_lds_reference.mlir}'

// What this iteration has written is read, not what the one before has left.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
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
    "ck.lds_write"(%t, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    // expected-error@+1 {{'ck.lds_read' finds in LDS tensor 'kept' what 'ck.lds_write' has left, where the unscheduled program finds what 'scf.for' has [dependence]}}
    %before = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %sum = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
    %more = arith.addf %sum, %before : vector<1xf32>
    "ck.lds_write"(%more, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (vector<1xf32>, !lds) -> ()
    %ow = "ck.make_window"(%out, %i) : (!view, i32) -> !window
    "ck.store_fragment"(%before, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  } {ck.schedule = "schedule ahead 1; ahead load 2"}
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
}

// -----

// The odd elements hold nothing in the first iteration.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
func.func @halves(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<2xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %kept = "ck.lds_alloc"() {name = "kept", layout = "lengths 128 order 0 pitch 128"} : () -> !lds
  "ck.lds_write"(%x, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    // expected-error@+1 {{'ck.lds_read' reads elements of LDS tensor 'kept' that nothing has written on some path, or that something else has overwritten since [dependence]}}
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
}

// -----

// The sum is not kept.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
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
    // expected-error@+1 {{'ck.lds_read' reads elements of LDS tensor 'kept' that nothing has written on some path, or that something else has overwritten since [dependence]}}
    %before = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    "ck.lds_write"(%t, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %sum = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
    %more = arith.addf %sum, %before : vector<1xf32>
    %ow = "ck.make_window"(%out, %i) : (!view, i32) -> !window
    "ck.store_fragment"(%before, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  } {ck.schedule = "schedule ahead 1; ahead load 2"}
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
}

// -----

// The sum takes what was kept before it twice.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
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
    // expected-error@+1 {{'ck.lds_read' reads elements of LDS tensor 'kept' that nothing has written on some path, or that something else has overwritten since [dependence]}}
    %before = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    "ck.lds_write"(%t, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %sum = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
    %more = arith.addf %sum, %sum : vector<1xf32>
    "ck.lds_write"(%more, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (vector<1xf32>, !lds) -> ()
    %ow = "ck.make_window"(%out, %i) : (!view, i32) -> !window
    "ck.store_fragment"(%before, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  } {ck.schedule = "schedule ahead 1; ahead load 2"}
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
}

// -----

// A part of a branch leaves the tensor as it was.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
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
        // expected-error@+1 {{'ck.lds_read' reads elements of LDS tensor 'kept' that nothing has written on some path, or that something else has overwritten since [dependence]}}
        %a = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
        %b = arith.addf %a, %t : vector<1xf32>
      } else {
        "ck.lds_write"(%t, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (vector<1xf32>, !lds) -> ()
      } {ck.stage = "math"}
    } {ck.schedule = "schedule ahead 1; ahead load 1"}
  }
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
}

// -----

// The other part writes the other elements.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
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
        // expected-error@+1 {{'ck.lds_read' finds in LDS tensor 'kept' what 'ck.lds_write' has left, where the unscheduled program finds what 'scf.for' has [dependence]}}
        %a = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
        %b = arith.addf %a, %t : vector<1xf32>
        "ck.lds_write"(%b, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      } else {
        "ck.lds_write"(%t, %kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      } {ck.stage = "math"}
    } {ck.schedule = "schedule ahead 1; ahead load 1"}
  }
  %end = "ck.lds_read"(%kept) {distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf32>
  return %end : vector<2xf32>
}
}
