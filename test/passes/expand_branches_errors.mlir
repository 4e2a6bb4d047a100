// What a branch cannot be in a scheduled loop, and conditions that are not the same for all threads, are refused.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file --verify-diagnostics

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @store_ahead(%w: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%w) : (!llvm.ptr<1>) -> !view
  scf.for %i = %zero to %n step %one : i32 {
    %some = arith.cmpi ne, %i, %one : i32
    scf.if %some {
      %to = "ck.make_window"(%v, %zero) : (!view, i32) -> !window
      // expected-error@+1 {{'ck.store_fragment' in stage 'out' cannot run ahead: its effect would happen twice}}
      "ck.store_fragment"(%x, %to) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    } {ck.stage = "out"}
  } {ck.schedule = "schedule s 1; ahead out 1"}
  return
}

// -----

// What runs ahead must not follow an address past the end, in a branch or not.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
func.func @carried_address(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%q = %p) -> (!llvm.ptr<1>) : i32 {
    %some = arith.cmpi ne, %i, %one : i32
    %t = scf.if %some -> (vector<1xf32>) {
      // expected-error@+1 {{schedule 's' runs this 1 ahead, also behind the last iteration, with an address or length that the loop carries; compute it from the loop's index, which stays inside}}
      %v = "ck.make_view"(%q) : (!llvm.ptr<1>) -> !view
      %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !window
      %l = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      scf.yield %l : vector<1xf32>
    } else {
      scf.yield %x : vector<1xf32>
    } {ck.stage = "load"}
    %s = arith.addf %t, %t {ck.stage = "math"} : vector<1xf32>
    %next = llvm.getelementptr %q[64] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
    scf.yield %next : !llvm.ptr<1>
  } {ck.schedule = "schedule s 1; ahead load 1; step math, load"}
  return
}

// -----

func.func @carried_index(%p: !llvm.ptr<1>, %n: i32, %x: i64) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%q = %x) -> (i64) : i32 {
    %a = llvm.getelementptr %p[%q] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
    // expected-error@+1 {{schedule 's' runs this 1 ahead, also behind the last iteration, with an address or length that the loop carries}}
    %next = llvm.load %a {ck.stage = "load"} : !llvm.ptr<1> -> i64
    %s = arith.addi %next, %next {ck.stage = "math"} : i64
    scf.yield %next : i64
  } {ck.schedule = "schedule s 1; ahead load 1; step math, load"}
  return
}

// -----

func.func @loop_in_branch(%n: i32, %x: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-error@+1 {{schedule 's' pipelines a loop that holds another loop; only innermost loops can be}}
  scf.for %i = %zero to %n step %one : i32 {
    %some = arith.cmpi ne, %i, %one : i32
    scf.if %some {
      %r = scf.while (%k = %x) : (i32) -> i32 {
        %more = arith.cmpi slt, %k, %n : i32
        scf.condition(%more) %k : i32
      } do {
      ^bb0(%j: i32):
        scf.yield %j : i32
      }
    } {ck.stage = "load"}
  } {ck.schedule = "schedule s 1; ahead load 1"}
  return
}

// -----

!lds = !ck.lds<[64], f32>
func.func @placed_one_by_one(%n: i32, %a: vector<4xf16>, %c: vector<16xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
  %r = scf.for %i = %zero to %n step %one iter_args(%s = %c) -> (vector<16xf32>) : i32 {
    %some = arith.cmpi ne, %i, %one : i32
    // expected-error@+1 {{schedule 's' asks for order interleave, which places memory accesses and matrix instructions one by one, and this branch holds 'ck.lds_read'; list the stages in a step without groups, or keep such operations out of the branch}}
    scf.if %some {
      // expected-note@+1 {{it holds this}}
      %t = "ck.lds_read"(%l) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    } {ck.stage = "read"}
    %d = "ck.mfma"(%a, %a, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "math", instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    scf.yield %d : vector<16xf32>
  } {ck.schedule = "schedule s 1; order interleave"}
  return
}

// -----

!lds = !ck.lds<[64], f32>
func.func @groups(%n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
  scf.for %i = %zero to %n step %one : i32 {
    %some = arith.cmpi ne, %i, %one : i32
    // expected-error@+1 {{schedule 's' asks for 2 groups of waves, whose accesses to LDS lie barriers apart, and this branch holds 'ck.lds_read'}}
    scf.if %some {
      // expected-note@+1 {{it holds this}}
      %t = "ck.lds_read"(%l) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    } {ck.stage = "read"}
    %s = arith.addi %i, %one {ck.stage = "math"} : i32
  } {ck.schedule = "schedule s 1; step read, barrier, math, barrier; groups 2"}
  return
}

// -----

func.func @differs(%n: i32) attributes {ck.waves = 1 : i32} {
  // expected-note@+1 {{it depends on this}}
  %lane = "ck.thread_coordinate"() {distribution = "d0: 64@lane", axis = 0 : i64} : () -> i32
  %half = arith.cmpi slt, %lane, %n : i32
  // expected-error@+1 {{the condition of this branch differs between threads, and a workgroup takes one way; choose with arith.select, or make it uniform with ck.uniform}}
  scf.if %half {
  }
  return
}

// -----

func.func @differs_in_a_loop(%v: vector<1xi32>, %n: i32) attributes {ck.waves = 1 : i32} {
  // expected-note@+1 {{it depends on this}}
  %own = vector.extract %v[0] : i32 from vector<1xi32>
  // expected-error@+1 {{the condition of this loop differs between threads}}
  %r = scf.while (%k = %n) : (i32) -> i32 {
    %more = arith.cmpi slt, %k, %own : i32
    scf.condition(%more) %k : i32
  } do {
  ^bb0(%j: i32):
    scf.yield %j : i32
  }
  return
}

// -----

// Of what all lanes hold equally one may be asked.
func.func @uniform(%v: vector<1xi32>, %n: i32) attributes {ck.waves = 1 : i32} {
  %own = vector.extract %v[0] : i32 from vector<1xi32>
  %all = "ck.first_lane"(%own) : (i32) -> i32
  %more = arith.cmpi slt, %all, %n : i32
  scf.if %more {
  }
  return
}
