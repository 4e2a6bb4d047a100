// Registers of loads in flight take turns by unrolling: no value changes its register from one step to the next.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>

// Two iterations are in flight where the step uses one: the loop holds two steps, and what the second loads comes back
// as what the second used.
// CHECK-LABEL: func.func @two_in_flight
// CHECK: cf.cond_br %{{[0-9]+}}, ^[[STEADY:bb[0-9]+]](
// CHECK-SAME: ), ^bb{{[0-9]+}}(
// CHECK: ^[[STEADY]](%{{.*}}: i32, %[[SUM:.*]]: vector<1xf32>, %[[OLD:.*]]: vector<1xf32>, %[[NEW:.*]]: vector<1xf32>):
// CHECK: %[[S1:.*]] = arith.addf %[[SUM]], %[[OLD]]
// CHECK: %[[A:.*]] = "ck.load_fragment"
// CHECK: %[[S2:.*]] = arith.addf %[[S1]], %[[NEW]]
// CHECK: %[[B:.*]] = "ck.load_fragment"
// CHECK: cf.cond_br %{{.*}}, ^[[STEADY]](%{{.*}}, %[[S2]], %[[A]], %[[B]] :
func.func @two_in_flight(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule two 1; ahead load 2; step math, load"}
  return %r : vector<1xf32>
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>

// A load behind the last user of what it replaces needs no second set: one step.
// CHECK-LABEL: func.func @behind_its_user
// CHECK: ^[[STEADY:bb[0-9]+]](%{{.*}}: i32, %{{.*}}: vector<1xf32>, %[[OLD:.*]]: vector<1xf32>):
// CHECK: arith.addf %{{.*}}, %[[OLD]]
// CHECK: "ck.load_fragment"
// CHECK-NOT: "ck.load_fragment"
// CHECK: cf.cond_br %{{.*}}, ^[[STEADY]](
func.func @behind_its_user(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule one 1; ahead load 1; step math, load"}
  return %r : vector<1xf32>
}
