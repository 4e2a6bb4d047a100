// Scheduled programs that do not compute what the unscheduled ones in Inputs/check_schedule_reference.mlir do are refused;
// the message names both operations and their iterations.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --pass-pipeline='ck-pipeline-loops,ck-allocate-lds,ck-insert-barriers,ck-place-sched-barriers,ck-check-schedule{reference=%S/Inputs/check_schedule_reference.mlir}'

// One load too far ahead: each step adds what the next iteration is to add.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
  func.func @sum(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
      %j = arith.addi %i, %step {ck.stage = "load"} : i32
      %w = "ck.make_window"(%v, %j) {ck.stage = "load"} : (!view, i32) -> !window
      // expected-error@+1 {{'ck.load_fragment' of stage 'load' runs for iteration i+1, which there may not be: limit the index to the last iteration's [order]}}
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
      scf.yield %s : vector<1xf32>
    }
    return %r : vector<1xf32>
  }
}

// -----

// The result of one step too few.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
  func.func @sum(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %r:2 = scf.for %i = %zero to %n step %step iter_args(%c = %x, %d = %x) -> (vector<1xf32>, vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
      scf.yield %s, %c : vector<1xf32>, vector<1xf32>
    }
    // expected-error@+1 {{returns nothing that the unscheduled program computes, where the result of 'scf.for' is needed [dependence]}}
    return %r#1 : vector<1xf32>
  }
}

// -----

// A load ahead of a store to memory that may be the same.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
  func.func @in_place(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    scf.for %i = %zero to %n step %step : i32 {
      %v = "ck.make_view"(%p, %n) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !view
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      // expected-error@+1 {{'ck.load_fragment' of stage 'load' of iteration i may touch the memory of 'ck.store_fragment' of stage 'store', which has not happened yet as it has in the unscheduled program; run neither of them ahead of the other, or show that the pointers are different (llvm.noalias) [order]}}
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %t, %t {ck.stage = "math"} : vector<1xf32>
      %sv = "ck.make_view"(%p, %n) {ck.stage = "store"} : (!llvm.ptr<1>, i32) -> !view
      %sw = "ck.make_window"(%sv, %i) {ck.stage = "store"} : (!view, i32) -> !window
      "ck.store_fragment"(%s, %sw) {ck.stage = "store", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    } {ck.schedule = "schedule ahead 1; ahead load 1"}
    return
  }
}

// -----

// A store that is missing.
module attributes {ck.target = "gfx942"} {
  func.func @apart(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{at this point 'ck.store_fragment' of stage 'store' has not happened exactly once for every time that it is to [order]}}
    return
  }
}

// -----

// A tensor that is read before the step writes it.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
  func.func @staged(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %l = "ck.lds_alloc"() {name = "tile", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
      %v = "ck.make_view"(%p, %n) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !view
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      // expected-error@+1 {{'ck.lds_read' of stage 'from_lds' reads elements of LDS tensor 'tile' that nothing has written on some path, or that something else has overwritten since [dependence]}}
      %u = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      "ck.lds_write"(%t, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      %s = arith.addf %c, %u {ck.stage = "math"} : vector<1xf32>
      scf.yield %s : vector<1xf32>
    }
    return %r : vector<1xf32>
  }
}
