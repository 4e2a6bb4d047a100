// Branches and loops with a condition become blocks; loops of stages in them, and those they stand in, keep their schedules.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

// An arm that only gives values needs no block.
// CHECK-LABEL: func.func @branch
// CHECK-SAME: (%[[C:.*]]: i1, %[[X:.*]]: i32)
// CHECK: cf.cond_br %[[C]], ^bb1, ^bb2(%[[X]] : i32)
// CHECK: ^bb1:
// CHECK: %[[SUM:.*]] = arith.addi %[[X]], %[[X]] : i32
// CHECK: cf.br ^bb2(%[[SUM]] : i32)
// CHECK: ^bb2(%[[RESULT:.*]]: i32):
// CHECK-NEXT: return %[[RESULT]] : i32
func.func @branch(%c: i1, %x: i32) -> i32 attributes {ck.waves = 1 : i32} {
  %r = scf.if %c -> (i32) {
    %s = arith.addi %x, %x : i32
    scf.yield %s : i32
  } else {
    scf.yield %x : i32
  }
  return %r : i32
}

// -----

// The block that decides is where the body goes back to. What goes round advances with the loop.
// CHECK-LABEL: func.func @while
// CHECK-SAME: (%[[N:.*]]: i32)
// CHECK: cf.br ^[[DECIDE:bb[0-9]+]](%[[N]] : i32) {ck.advances = array<i32: 0>}
// CHECK: ^[[DECIDE]](%[[I:.*]]: i32):
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[I]], %[[N]] : i32
// CHECK: cf.cond_br %[[MORE]], ^[[BODY:bb[0-9]+]](%[[I]] : i32), ^[[BEHIND:bb[0-9]+]](%[[I]] : i32) {ck.advances = array<i32: 0>}
// CHECK: ^[[BODY]](%[[J:.*]]: i32):
// CHECK: %[[NEXT:.*]] = arith.addi %[[J]], %[[J]] : i32
// CHECK: cf.br ^[[DECIDE]](%[[NEXT]] : i32) {ck.advances = array<i32: 0>}
// CHECK: ^[[BEHIND]](%[[LAST:.*]]: i32):
// CHECK-NEXT: return %[[LAST]] : i32
func.func @while(%n: i32) -> i32 attributes {ck.waves = 1 : i32} {
  %r = scf.while (%i = %n) : (i32) -> i32 {
    %more = arith.cmpi slt, %i, %n : i32
    scf.condition(%more) %i : i32
  } do {
  ^bb0(%j: i32):
    %next = arith.addi %j, %j : i32
    scf.yield %next : i32
  }
  return %r : i32
}

// -----

// In a stage: the branch runs ahead with the load that it holds, once in the prologue and for the next iteration in the
// step. What it gives is carried, as what a load gives would be; it advances with the loop.
// CHECK-LABEL: func.func @stage
// CHECK: ^bb1:
// CHECK: cf.cond_br %{{.*}}, ^bb2, ^bb3(%{{.*}} : vector<1xf32>)
// CHECK: ^bb2:
// CHECK: "ck.load_fragment"
// CHECK: ^bb3(%[[FIRST:.*]]: vector<1xf32>):
// CHECK: cf.br ^[[STEADY:bb[0-9]+]](%{{.*}}, %{{.*}}, %[[FIRST]] : i32, vector<1xf32>, vector<1xf32>)
// CHECK: ^[[STEADY]](%[[I:.*]]: i32, %[[SUM:.*]]: vector<1xf32>, %[[LOADED:.*]]: vector<1xf32>):
// CHECK: arith.minsi
// CHECK: arith.addf %[[SUM]], %[[LOADED]] {ck.stage = "math"} : vector<1xf32>
// CHECK: cf.cond_br %{{.*}}, ^[[ARM:bb[0-9]+]], ^[[MEET:bb[0-9]+]]({{.*}}) {ck.advances = array<i32: 1>}
// CHECK: ^[[ARM]]:
// CHECK: "ck.load_fragment"{{.*}}ck.pinned
// CHECK: cf.br ^[[MEET]](%{{.*}}) {ck.advances = array<i32: 0>}
// CHECK: ^[[MEET]](%[[NEXT:.*]]: vector<1xf32>):
// CHECK: cf.cond_br %{{.*}}, ^[[STEADY]](%{{.*}}, %{{.*}}, %[[NEXT]] : i32, vector<1xf32>, vector<1xf32>)
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
func.func @stage(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %some = arith.cmpi ne, %i, %step : i32
    %t = scf.if %some -> (vector<1xf32>) {
      %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
      %l = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      scf.yield %l : vector<1xf32>
    } else {
      scf.yield %x : vector<1xf32>
    } {ck.stage = "load"}
    %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule ahead 1; ahead load 1; step math, load; fences memory"}
  return %r : vector<1xf32>
}

// -----

// A branch without effects and without a stage runs as far ahead as what uses it.
// CHECK-LABEL: func.func @pure
// CHECK: ^bb1:
// CHECK: cf.cond_br %{{.*}}, ^bb2, ^bb3
// CHECK: ^bb3(%[[AT:.*]]: i32):
// CHECK: "ck.make_window"(%{{.*}}, %[[AT]])
// CHECK: "ck.load_fragment"
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
func.func @pure(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %far = arith.cmpi slt, %i, %step : i32
    %at = scf.if %far -> (i32) {
      %next = arith.addi %i, %step : i32
      scf.yield %next : i32
    } else {
      scf.yield %i : i32
    }
    %w = "ck.make_window"(%v, %at) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule ahead 1; ahead load 1; step math, load"}
  return %r : vector<1xf32>
}

// -----

// A loop of stages in a branch, in a loop with a condition.
// CHECK-LABEL: func.func @nested
// CHECK: cf.br ^[[DECIDE:bb[0-9]+]]
// CHECK: ^[[DECIDE]](
// CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[BEHIND:bb[0-9]+]]
// CHECK: cf.cond_br
// CHECK: "ck.lds_alloc"
// CHECK: "ck.lds_alloc"
// CHECK: "ck.lds_write"
// CHECK: cf.br ^[[DECIDE]]
// CHECK: ^[[BEHIND]](
// CHECK-NEXT: return
!lds = !ck.lds<[64], i32>
func.func @nested(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %last = scf.while (%i = %n) : (i32) -> i32 {
    %more = arith.cmpi sgt, %i, %zero : i32
    scf.condition(%more) %i : i32
  } do {
  ^bb0(%j: i32):
    %odd = arith.cmpi slt, %j, %n : i32
    scf.if %odd {
      scf.for %i = %zero to %n step %one : i32 {
        %l = "ck.lds_alloc"() {ck.stage = "to_lds", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
        %v = vector.broadcast %i {ck.stage = "to_lds"} : i32 to vector<1xi32>
        "ck.lds_write"(%v, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
        %r = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
      } {ck.schedule = "schedule double 1; ahead to_lds 1; buffers 2"}
    }
    %k = arith.subi %j, %one : i32
    scf.yield %k : i32
  }
  return
}
