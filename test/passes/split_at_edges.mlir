// Turns of which the end of a row cuts no element off have a loop of their own, without the comparison; those that are left
// follow in the loop as it was.

// RUN: ckmlir-opt %s --split-input-file --pass-pipeline='ck-pipeline-loops,ck-place-sched-barriers,ck-split-at-edges' | filecheck %s
// RUN: ckmlir-opt %s --split-input-file --pass-pipeline='ck-pipeline-loops,ck-place-sched-barriers,ck-split-at-edges,ck-split-at-edges' | filecheck %s

// Columns of a lane are 0 to 31 and 36 more at most: the turn at an index is whole if the end is more than 67 less it.
// CHECK-LABEL: func.func @masked
// CHECK-SAME:  i32, %[[N:[a-z0-9]+]]: i32, %[[END:[a-z0-9]+]]: i32
// CHECK:       cf.cond_br %{{.*}}, ^[[BEFORE:bb[0-9]+]], ^[[NONE:bb[0-9]+]](
// CHECK:       ^[[BEFORE]]:
// CHECK:         cf.br ^[[ENTER:bb[0-9]+]](
// CHECK:       ^[[ENTER]](%[[START:[a-z0-9]+]]: i32, %{{.*}}: vector<16xf32>):
// CHECK-DAG:     %[[REST:.*]] = arith.subi %[[N]], %[[START]] : i32
// CHECK-DAG:     %[[LEFT:.*]] = arith.subi %[[END]], %[[START]]
// CHECK-DAG:     %[[LAST:.*]] = arith.constant 67 : i32
// CHECK:         %[[SOME:.*]] = arith.cmpi sgt, %[[LEFT]], %[[LAST]] : i32
// CHECK:         %[[BEYOND:.*]] = arith.subi %[[LEFT]], %[[LAST]] : i32
// CHECK:         %[[TURNS:.*]] = arith.minsi %[[REST]], %[[BEYOND]] : i32
// CHECK:         %[[REACH:.*]] = arith.addi %[[START]], %[[TURNS]] : i32
// CHECK:         %[[LIMIT:.*]] = "ck.first_lane"(%[[REACH]])
// CHECK:         cf.cond_br %[[SOME]], ^[[WHOLE:bb[0-9]+]](%[[START]], {{.*}}), ^[[LOOP:bb[0-9]+]](%[[START]], {{.*}} {ck.advances = array<i32: 0, 1>, ck.enters}

// CHECK:       ^[[WHOLE]](%[[I:[a-z0-9]+]]: i32, %[[SUM:[a-z0-9]+]]: vector<16xf32>):
// CHECK-NOT:     arith.select
// CHECK-NOT:     arith.cmpi
// CHECK:         %[[MORE:.*]] = arith.addf %[[SUM]], %{{.*}} : vector<16xf32>
// CHECK:         %[[NEXT:.*]] = arith.addi %[[I]],
// CHECK:         %[[STAYS:.*]] = arith.cmpi slt, %[[NEXT]], %[[LIMIT]] : i32
// CHECK:         cf.cond_br %[[STAYS]], ^[[WHOLE]](%[[NEXT]], %[[MORE]] : {{.*}}), ^[[LEAVE:bb[0-9]+]] {ck.advances = array<i32: 0>}
// CHECK:       ^[[LEAVE]]:
// CHECK:         %[[ANY:.*]] = arith.cmpi slt, %[[NEXT]], %[[N]] : i32
// CHECK:         cf.cond_br %[[ANY]], ^[[LOOP]](%[[NEXT]], %[[MORE]] : {{.*}}), ^[[BEHIND:bb[0-9]+]]({{.*}}) {ck.advances = array<i32: 0>}

// CHECK:       ^[[LOOP]](%[[J:[a-z0-9]+]]: i32,
// CHECK:         arith.subi %[[END]], %[[J]]
// CHECK:         arith.cmpi slt, %{{.*}} : vector<16xi32>
// CHECK:         arith.select
// CHECK:         cf.cond_br %{{.*}}, ^[[LOOP]]({{.*}}), ^[[BEHIND]]({{.*}}) {ck.advances = array<i32: 0>, ck.edge}
// CHECK:       ^[[BEHIND]](
// CHECK:         cf.br ^[[NONE]](
// CHECK:       ^[[NONE]](%[[RESULT:[a-z0-9]+]]: vector<16xf32>):
// CHECK-NEXT:    return %[[RESULT]]
func.func @masked(%s: vector<16xf32>, %x: vector<16xf32>, %from: i32, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %step = arith.constant 64 : i32
  %r = scf.for %k = %from to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %lane = "ck.thread_coordinate"() {axis = 0 : i64, distribution = "d0: 2@y0 32@lane.1, r: 2@lane.0"} : () -> i32
    %lanes = vector.broadcast %lane : i32 to vector<16xi32>
    %columns = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 36]> : vector<16xi32>
    %at = arith.addi %lanes, %columns : vector<16xi32>
    %left = arith.subi %end, %k : i32
    %ends = vector.broadcast %left : i32 to vector<16xi32>
    %inside = arith.cmpi slt, %at, %ends : vector<16xi32>
    %none = arith.constant dense<0.0> : vector<16xf32>
    %kept = arith.select %inside, %s, %none : vector<16xi1>, vector<16xf32>
    %more = arith.addf %c, %kept : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule one 1"}
  return %r : vector<16xf32>
}

// -----

// A step that runs ahead is at the last one's index at most. What waves branch around is left out as well, where fences give
// the order; of two steps in a turn both ends count.
// CHECK-LABEL: func.func @ahead
// CHECK:       ^{{bb[0-9]+}}(
// CHECK-COUNT-2: arith.cmpi sgt
// CHECK:         arith.andi
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[WHOLE:bb[0-9]+]](
// CHECK:       ^[[WHOLE]](
// CHECK-NOT:     ck.cut_vector
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[WHOLE]]({{.*}}), ^[[LEAVE:bb[0-9]+]]
// CHECK:       ^[[LEAVE]]:
// CHECK:       ^{{bb[0-9]+}}(
// CHECK-COUNT-2: ck.cut_vector
// CHECK:         ck.edge
func.func @ahead(%x: vector<16xf32>, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %lane = "ck.thread_coordinate"() {axis = 0 : i64, ck.stage = "top", distribution = "d0: 2@y0 32@lane.1, r: 2@lane.0"} : () -> i32
    %left = arith.subi %end, %k {ck.stage = "top"} : i32
    %ends = vector.broadcast %left {ck.stage = "top"} : i32 to vector<1xi32>
    %many = arith.sitofp %left {ck.stage = "top"} : i32 to f32
    %s = vector.broadcast %many {ck.stage = "top"} : f32 to vector<16xf32>
    %kept = "ck.cut_vector"(%s, %ends, %lane) {ck.stage = "top", columns = array<i32: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>, other = 0.0 : f32} : (vector<16xf32>, vector<1xi32>, i32) -> vector<16xf32>
    %more = arith.addf %c, %kept {ck.stage = "sum"} : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule ahead 1; ahead top 1; unroll 2; step sum, fence, top"}
  return %r : vector<16xf32>
}

// Without fences LLVM mixes what is between branches.
// CHECK-LABEL: func.func @mixed
// CHECK-NOT:   ck.edge
func.func @mixed(%x: vector<16xf32>, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %lane = "ck.thread_coordinate"() {axis = 0 : i64, ck.stage = "top", distribution = "d0: 2@y0 32@lane.1, r: 2@lane.0"} : () -> i32
    %left = arith.subi %end, %k {ck.stage = "top"} : i32
    %ends = vector.broadcast %left {ck.stage = "top"} : i32 to vector<1xi32>
    %many = arith.sitofp %left {ck.stage = "top"} : i32 to f32
    %s = vector.broadcast %many {ck.stage = "top"} : f32 to vector<16xf32>
    %kept = "ck.cut_vector"(%s, %ends, %lane) {ck.stage = "top", columns = array<i32: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>, other = 0.0 : f32} : (vector<16xf32>, vector<1xi32>, i32) -> vector<16xf32>
    %more = arith.addf %c, %kept {ck.stage = "sum"} : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule ahead 1; ahead top 1; unroll 2; step sum, top"}
  return %r : vector<16xf32>
}

// -----

// Loops stay as they are: whose ends differ between rows,
// CHECK-LABEL: func.func @rows
// CHECK-NOT:   ck.edge
func.func @rows(%s: vector<16xf32>, %x: vector<16xf32>, %at: vector<16xi32>, %n: i32, %end: vector<16xi32>) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %place = vector.broadcast %k : i32 to vector<16xi32>
    %left = arith.subi %end, %place : vector<16xi32>
    %columns = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %inside = arith.cmpi slt, %columns, %left : vector<16xi32>
    %none = arith.constant dense<0.0> : vector<16xf32>
    %kept = arith.select %inside, %s, %none : vector<16xi1>, vector<16xf32>
    %more = arith.addf %c, %kept : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule one 1"}
  return %r : vector<16xf32>
}

// whose end rises, or falls by more than the index rises,
// CHECK-LABEL: func.func @rising
// CHECK-NOT:   ck.edge
func.func @rising(%s: vector<16xf32>, %x: vector<16xf32>, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %columns = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %none = arith.constant dense<0.0> : vector<16xf32>
    %more = arith.addi %end, %k : i32
    %risen = vector.broadcast %more : i32 to vector<16xi32>
    %inside = arith.cmpi slt, %columns, %risen : vector<16xi32>
    %kept = arith.select %inside, %s, %none : vector<16xi1>, vector<16xf32>
    %twice = arith.muli %k, %two : i32
    %less = arith.subi %end, %twice : i32
    %fallen = vector.broadcast %less : i32 to vector<16xi32>
    %before = arith.cmpi slt, %columns, %fallen : vector<16xi32>
    %both = arith.select %before, %kept, %none : vector<16xi1>, vector<16xf32>
    %sum = arith.addf %c, %both : vector<16xf32>
    scf.yield %sum : vector<16xf32>
  } {ck.schedule = "schedule one 1"}
  return %r : vector<16xf32>
}

// that choose few elements, or where a comparison says more than which elements are kept.
// CHECK-LABEL: func.func @few
// CHECK-NOT:   ck.edge
func.func @few(%s: vector<8xf32>, %x: vector<8xf32>, %n: i32, %end: i32) -> vector<8xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<8xf32>) : i32 {
    %columns = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : vector<8xi32>
    %left = arith.subi %end, %k : i32
    %ends = vector.broadcast %left : i32 to vector<8xi32>
    %inside = arith.cmpi slt, %columns, %ends : vector<8xi32>
    %none = arith.constant dense<0.0> : vector<8xf32>
    %kept = arith.select %inside, %s, %none : vector<8xi1>, vector<8xf32>
    %more = arith.addf %c, %kept : vector<8xf32>
    scf.yield %more : vector<8xf32>
  } {ck.schedule = "schedule one 1"}
  return %r : vector<8xf32>
}

// CHECK-LABEL: func.func @counted
// CHECK-NOT:   ck.edge
func.func @counted(%s: vector<16xf32>, %x: vector<16xf32>, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %columns = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %left = arith.subi %end, %k : i32
    %ends = vector.broadcast %left : i32 to vector<16xi32>
    %inside = arith.cmpi slt, %columns, %ends : vector<16xi32>
    %counted = arith.uitofp %inside : vector<16xi1> to vector<16xf32>
    %more = arith.addf %c, %counted : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule one 1"}
  return %r : vector<16xf32>
}

// -----

// Of rows that are in front of an end, and no more than a number, a whole turn has that number. The last index bounds none of
// its steps.
// CHECK-LABEL: func.func @counts
// CHECK:       ^{{bb[0-9]+}}(
// CHECK:         %[[LAST:.*]] = arith.constant 63 : i32
// CHECK:         arith.cmpi sgt, %{{.*}}, %[[LAST]] : i32
// CHECK:         %[[NONE:.*]] = arith.constant -1 : i32
// CHECK:         arith.cmpi sgt, %{{.*}}, %[[NONE]] : i32
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[WHOLE:bb[0-9]+]](
// CHECK:       ^[[WHOLE]](%[[I:[a-z0-9]+]]: i32,
// CHECK-NOT:     arith.minsi
// CHECK:         %[[MOST:.*]] = arith.constant {ck.stage = "load"} 64 : i32
// CHECK:         "ck.make_view"(%{{.*}}, %[[MOST]])
// CHECK-NOT:     arith.minsi
// CHECK-NOT:     arith.select
// CHECK:         cf.cond_br %{{.*}}, ^[[WHOLE]]({{.*}}), ^[[LEAVE:bb[0-9]+]]
// CHECK:       ^[[LEAVE]]:
// CHECK:       ^{{bb[0-9]+}}(
// CHECK:         %[[ROWS:.*]] = arith.minsi %{{.*}}, %{{.*}} {ck.stage = "load"} : i32
// CHECK:         "ck.make_view"(%{{.*}}, %[[ROWS]])
// CHECK:         ck.edge
!rows = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0)">
!block = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0)", [64]>
func.func @counts(%p: !llvm.ptr<1>, %x: vector<16xf32>, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %most = arith.constant {ck.stage = "load"} 64 : i32
    %larger = arith.maxsi %end, %k {ck.stage = "load"} : i32
    %before = arith.subi %larger, %k {ck.stage = "load"} : i32
    %rows = arith.minsi %before, %most {ck.stage = "load"} : i32
    %v = "ck.make_view"(%p, %rows) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !rows
    %w = "ck.make_window"(%v, %zero) {ck.stage = "load"} : (!rows, i32) -> !block
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!block) -> vector<1xf32>
    %s = vector.shuffle %t, %t [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] {ck.stage = "math"} : vector<1xf32>, vector<1xf32>
    %columns = arith.constant {ck.stage = "math"} dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %left = arith.subi %end, %k {ck.stage = "math"} : i32
    %ends = vector.broadcast %left {ck.stage = "math"} : i32 to vector<16xi32>
    %inside = arith.cmpi slt, %columns, %ends {ck.stage = "math"} : vector<16xi32>
    %none = arith.constant {ck.stage = "math"} dense<0.0> : vector<16xf32>
    %kept = arith.select %inside, %s, %none {ck.stage = "math"} : vector<16xi1>, vector<16xf32>
    %more = arith.addf %c, %kept {ck.stage = "math"} : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule two 1; ahead load 1; step math, load"}
  return %r : vector<16xf32>
}

// -----

// What is looked up a step before, whose index no column is compared with, is bounded by the last one in no whole turn either,
// if turns are of two steps.
// CHECK-LABEL: func.func @looks_up
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[WHOLE:bb[0-9]+]]({{.*}}ck.enters
// CHECK:       ^[[WHOLE]](%[[I:[a-z0-9]+]]: i32,
// CHECK-NOT:     arith.minsi
// CHECK:         llvm.load
// CHECK-NOT:     arith.minsi
// CHECK:         llvm.load
// CHECK-NOT:     arith.minsi
// CHECK:         cf.cond_br %{{.*}}, ^[[WHOLE]]({{.*}}), ^[[LEAVE:bb[0-9]+]]
// CHECK:       ^[[LEAVE]]:
// CHECK:         arith.minsi
// CHECK:         ck.edge
//
// CHECK-LABEL: func.func @looks_up_in_each_turn
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[WHOLE:bb[0-9]+]]({{.*}}ck.enters
// CHECK:       ^[[WHOLE]](%[[I:[a-z0-9]+]]: i32,
// CHECK:         arith.minsi
// CHECK:         cf.cond_br %{{.*}}, ^[[WHOLE]]({{.*}}), ^[[LEAVE:bb[0-9]+]]
// CHECK:         ck.edge
!row = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0)">
!part = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0)", [64]>
func.func @looks_up(%p: !llvm.ptr<1>, %x: vector<16xf32>, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %entry = llvm.getelementptr %p[%k] {ck.stage = "find"} : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %place = llvm.load %entry invariant {ck.stage = "find"} : !llvm.ptr<1> -> i32
    %most = arith.constant {ck.stage = "load"} 64 : i32
    %before = arith.subi %end, %k {ck.stage = "load"} : i32
    %rows = arith.minsi %before, %most {ck.stage = "load"} : i32
    %q = llvm.getelementptr %p[%place] {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %v = "ck.make_view"(%q, %rows) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !row
    %w = "ck.make_window"(%v, %zero) {ck.stage = "load"} : (!row, i32) -> !part
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!part) -> vector<1xf32>
    %s = vector.shuffle %t, %t [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] {ck.stage = "math"} : vector<1xf32>, vector<1xf32>
    %columns = arith.constant {ck.stage = "math"} dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %left = arith.subi %end, %k {ck.stage = "math"} : i32
    %ends = vector.broadcast %left {ck.stage = "math"} : i32 to vector<16xi32>
    %inside = arith.cmpi slt, %columns, %ends {ck.stage = "math"} : vector<16xi32>
    %none = arith.constant {ck.stage = "math"} dense<0.0> : vector<16xf32>
    %kept = arith.select %inside, %s, %none {ck.stage = "math"} : vector<16xi1>, vector<16xf32>
    %more = arith.addf %c, %kept {ck.stage = "math"} : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule two 1; ahead find 2, load 1; unroll 2; step math, load, find"}
  return %r : vector<16xf32>
}

func.func @looks_up_in_each_turn(%p: !llvm.ptr<1>, %x: vector<16xf32>, %n: i32, %end: i32) -> vector<16xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %step iter_args(%c = %x) -> (vector<16xf32>) : i32 {
    %entry = llvm.getelementptr %p[%k] {ck.stage = "find"} : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %place = llvm.load %entry invariant {ck.stage = "find"} : !llvm.ptr<1> -> i32
    %most = arith.constant {ck.stage = "load"} 64 : i32
    %before = arith.subi %end, %k {ck.stage = "load"} : i32
    %rows = arith.minsi %before, %most {ck.stage = "load"} : i32
    %q = llvm.getelementptr %p[%place] {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %v = "ck.make_view"(%q, %rows) {ck.stage = "load"} : (!llvm.ptr<1>, i32) -> !row
    %w = "ck.make_window"(%v, %zero) {ck.stage = "load"} : (!row, i32) -> !part
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!part) -> vector<1xf32>
    %s = vector.shuffle %t, %t [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] {ck.stage = "math"} : vector<1xf32>, vector<1xf32>
    %columns = arith.constant {ck.stage = "math"} dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %left = arith.subi %end, %k {ck.stage = "math"} : i32
    %ends = vector.broadcast %left {ck.stage = "math"} : i32 to vector<16xi32>
    %inside = arith.cmpi slt, %columns, %ends {ck.stage = "math"} : vector<16xi32>
    %none = arith.constant {ck.stage = "math"} dense<0.0> : vector<16xf32>
    %kept = arith.select %inside, %s, %none {ck.stage = "math"} : vector<16xi1>, vector<16xf32>
    %more = arith.addf %c, %kept {ck.stage = "math"} : vector<16xf32>
    scf.yield %more : vector<16xf32>
  } {ck.schedule = "schedule two 1; ahead find 2, load 1; step math, load, find"}
  return %r : vector<16xf32>
}

// -----

// Another value with the same bound that depends on what a turn hands to the next, not on the index alone, keeps the bound.
// CHECK-LABEL: func.func @hands_on
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[WHOLE:bb[0-9]+]]({{.*}}ck.enters
// CHECK:       ^[[WHOLE]](%[[I:[0-9]+]]: i32, %{{[0-9]+}}: vector<16xf32>, %[[J:[0-9]+]]: i32):
// CHECK-NOT:     arith.select
// CHECK:         %[[SOME:[0-9]+]] = arith.minsi %[[I]], %[[J]]
// CHECK:         arith.minsi %[[SOME]],
// CHECK:         cf.cond_br %{{.*}}, ^[[WHOLE]](
// CHECK:         ck.edge
func.func @hands_on(%x: vector<16xf32>, %n: i32, %end: i32, %cap: i32, %j0: i32) -> (vector<16xf32>, i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r:2 = scf.for %k = %zero to %n step %step iter_args(%c = %x, %j = %j0) -> (vector<16xf32>, i32) : i32 {
    %columns = arith.constant {ck.stage = "math"} dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %at = arith.minsi %k, %cap {ck.stage = "math"} : i32
    %left = arith.subi %end, %at {ck.stage = "math"} : i32
    %ends = vector.broadcast %left {ck.stage = "math"} : i32 to vector<16xi32>
    %inside = arith.cmpi slt, %columns, %ends {ck.stage = "math"} : vector<16xi32>
    %none = arith.constant {ck.stage = "math"} dense<0.0> : vector<16xf32>
    %kept = arith.select %inside, %c, %none {ck.stage = "math"} : vector<16xi1>, vector<16xf32>
    %more = arith.addf %c, %kept {ck.stage = "math"} : vector<16xf32>
    %some = arith.minsi %k, %j {ck.stage = "math"} : i32
    %least = arith.minsi %some, %cap {ck.stage = "math"} : i32
    scf.yield %more, %least : vector<16xf32>, i32
  } {ck.schedule = "schedule one 1; step math"}
  return %r#0, %r#1 : vector<16xf32>, i32
}
