// How scheduled loops look: prologue, one steady loop with its LDS slots fixed, remainder steps.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

// Unpipelined: one block, entered when there is an iteration, that goes round and hands on what it carries.
// CHECK-LABEL: func.func @unpipelined
// CHECK-SAME: (%[[N:.*]]: i32, %[[X:.*]]: i32)
// CHECK: %[[SOME:.*]] = arith.cmpi slt, %{{.*}}, %[[N]] : i32
// CHECK: cf.cond_br %[[SOME]], ^bb1, ^bb3(%[[X]] : i32)
// CHECK: ^bb1:
// CHECK: cf.br ^bb2(%{{.*}}, %[[X]] : i32, i32)
// CHECK: ^bb2(%[[I:.*]]: i32, %[[C:.*]]: i32):
// CHECK: %[[SUM:.*]] = arith.addi %[[C]], %[[I]] {ck.stage = "math"} : i32
// CHECK: %[[NEXT:.*]] = arith.addi %[[I]], %{{.*}} : i32
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[NEXT]], %[[N]] : i32
// CHECK: cf.cond_br %[[MORE]], ^bb2(%[[NEXT]], %[[SUM]] : i32, i32), ^bb3(%[[SUM]] : i32)
// CHECK: ^bb3(%[[RESULT:.*]]: i32):
// CHECK-NEXT: return %[[RESULT]] : i32
func.func @unpipelined(%n: i32, %x: i32) -> i32 attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (i32) : i32 {
    %s = arith.addi %c, %i {ck.stage = "math"} : i32
    scf.yield %s : i32
  }
  return %r : i32
}

// -----

// A load one iteration ahead: once in the prologue, then for the next iteration but never past the last; what it loaded
// is an argument of the loop.
// CHECK-LABEL: func.func @load_ahead
// CHECK: ^bb1:
// CHECK: %[[LAST:.*]] = arith.addi
// CHECK: %[[FIRST:.*]] = "ck.load_fragment"
// CHECK: cf.br ^bb2(%{{.*}}, %{{.*}}, %[[FIRST]] : i32, vector<1xf32>, vector<1xf32>)
// CHECK: ^bb2(%[[I:.*]]: i32, %[[SUM:.*]]: vector<1xf32>, %[[LOADED:.*]]: vector<1xf32>):
// CHECK: arith.addf %[[SUM]], %[[LOADED]] {ck.stage = "math"} : vector<1xf32>
// CHECK: %[[AHEAD:.*]] = arith.addi %[[I]], %{{.*}} : i32
// CHECK: %[[AT:.*]] = arith.minsi %[[AHEAD]], %{{.*}} : i32
// CHECK: "ck.make_window"(%{{.*}}, %[[AT]])
// CHECK: %[[NEW:.*]] = "ck.load_fragment"
// CHECK: cf.cond_br %{{.*}}, ^bb2(%{{.*}}, %{{.*}}, %[[NEW]] : i32,
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
func.func @load_ahead(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %c, %t {ck.stage = "math"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule ahead 1; ahead load 1; step math, load"}
  return %r : vector<1xf32>
}

// -----

// Two LDS buffers: the steady loop has two steps, each with its slots, and runs while there are two more; the second step
// may be the last, but not the first. An odd trip count runs one step behind it, in which nothing runs ahead.
// CHECK-LABEL: func.func @two_buffers
// CHECK: %[[A:.*]] = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"}
// CHECK: %[[B:.*]] = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"}
// CHECK-NOT: ck.lds_alloc
// CHECK: arith.divui
// CHECK: %[[LAST_TURN:.*]] = arith.subi
// CHECK: "ck.lds_write"(%{{.*}}, %[[A]])
// CHECK: %[[TWO:.*]] = arith.cmpi slt, %{{.*}}, %[[LAST_TURN]]
// CHECK: cf.cond_br %[[TWO]], ^[[STEADY:bb[0-9]+]](%{{.*}}), ^[[ODD:bb[0-9]+]](
// The steady loop.
// CHECK: ^[[STEADY]](%{{.*}}: i32
// CHECK-NOT: arith.minsi
// CHECK: "ck.lds_write"(%{{.*}}, %[[B]])
// CHECK: "ck.lds_read"(%[[A]])
// CHECK: arith.minsi
// CHECK: "ck.lds_write"(%{{.*}}, %[[A]])
// CHECK: "ck.lds_read"(%[[B]])
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %{{.*}}, %[[LAST_TURN]]
// CHECK: cf.cond_br %[[MORE]], ^[[STEADY]](%{{.*}}), ^[[BEHIND:bb[0-9]+]]
// CHECK: ^[[BEHIND]]:
// CHECK: cf.cond_br %{{.*}}, ^[[ODD]](%{{.*}}), ^[[EXIT:bb[0-9]+]]
// The step behind it.
// CHECK: ^[[ODD]](%{{.*}}: i32):
// CHECK-NOT: "ck.lds_write"
// CHECK: "ck.lds_read"(%[[A]])
// CHECK: cf.br ^[[EXIT]]
!lds = !ck.lds<[64], i32>
func.func @two_buffers(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "to_lds", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %v = vector.broadcast %i {ck.stage = "to_lds"} : i32 to vector<1xi32>
    "ck.lds_write"(%v, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    %r = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule double 1; ahead to_lds 1; buffers 2"}
  return
}

// -----

// Fences: memory fragments of the steady loop are pinned, those of the prologue are not.
// CHECK-LABEL: func.func @fences
// CHECK: ^bb1:
// CHECK-NOT: ck.pinned
// CHECK: ^bb2(
// CHECK: "ck.lds_write"{{.*}}ck.pinned
// CHECK: "ck.lds_read"{{.*}}ck.pinned
!lds = !ck.lds<[64], i32>
func.func @fences(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %v = vector.broadcast %i : i32 to vector<1xi32>
    "ck.lds_write"(%v, %l) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    %r = "ck.lds_read"(%l) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule fenced 1; fences memory"}
  return
}
