// Along a merged dimension that a loop walks, the digits of an iteration come from those of the one before: each is divided
// once, before the loop, and advanced by addition, comparison and carry.

// RUN: ckmlir-opt %s --ck-carry-digits --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8", [64, 64]>

// What all threads load in a step lies in one unit of the last digit: the digits are the origin's. The first stays at the
// last place there is. A step of 64 is at most the last length, which 64 divide, so it is not divided.
// CHECK-LABEL: func.func @of_the_origin
// CHECK-SAME: %[[PLACES:[a-z0-9]+]]: i32, %[[C:[a-z0-9]+]]: i32 {ck.divisor = 64 : i64}
// CHECK:      %[[STEP:.*]] = arith.constant 64 : i32
// CHECK-DAG:  %[[RADIX:.*]] = arith.maxui %[[C]], %{{.*}} : i32
// CHECK-DAG:  %[[FIRST:.*]] = arith.divui %[[START:.*]], %[[RADIX]] : i32
// CHECK-DAG:  %[[LAST:.*]] = arith.remui %[[START]], %[[RADIX]] : i32
// CHECK-NOT:  arith.divui
// CHECK-NOT:  arith.remui
// CHECK:      scf.for %{{.*}} iter_args(%[[Q:.*]] = %[[FIRST]], %[[R:.*]] = %[[LAST]])
// CHECK:        %[[WINDOW:.*]] = "ck.with_digits"(%{{.*}}, %[[Q]], %[[R]]) {axis = 1 : i64, ck.stage = "load", inside = 0 : i64, of = "origin"}
// CHECK:        "ck.load_fragment"(%[[WINDOW]])
// CHECK-NOT:    arith.divui
// CHECK:        %[[TOTAL:.*]] = arith.addi %[[R]], %[[STEP]] {ck.stage = "load"} : i32
// CHECK:        %[[LESS:.*]] = arith.subi %[[TOTAL]], %[[RADIX]]
// CHECK:        %[[NEXT_R:.*]] = arith.minui %[[TOTAL]], %[[LESS]]
// CHECK:        %[[BORROW:.*]] = arith.shrui %[[LESS]]
// CHECK:        %[[MORE:.*]] = arith.subi %[[Q]], %{{.*}} : i32
// CHECK:        %[[CARRIED:.*]] = arith.subi %[[MORE]], %[[BORROW]]
// CHECK:        %[[NEXT_Q:.*]] = arith.minui %[[CARRIED]], %{{.*}}
// CHECK:        scf.yield %[[NEXT_Q]], %[[NEXT_R]] : i32, i32
func.func @of_the_origin(%p: !llvm.ptr<1>, %places: i32, %c: i32 {ck.divisor = 64 : i64}, %row: i32, %place: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) {ck.stage = "load"} : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) {ck.stage = "load"} : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
  }
  return
}

// -----

// Rows of 8 are not whole steps: every thread has digits of its own, and all its loads have them in common. The origin may
// be the index and what does not change. The comparison is a carry of the vector unit.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%8], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%8]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%8], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%8]); view(d0, d3) align 8", [64, 64]>

// CHECK-LABEL: func.func @of_threads
// CHECK:      %[[START:.*]] = arith.subi %{{.*}}, %{{.*}} : i32
// CHECK:      %[[THREAD:.*]] = "ck.thread_coordinate"() {axis = 1 : i64, distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1"}
// CHECK:      arith.addi %[[START]], %[[THREAD]]
// CHECK:      scf.for %{{.*}} iter_args(%[[Q:.*]] = %{{.*}}, %[[R:.*]] = %{{.*}})
// CHECK:        %[[WINDOW:.*]] = "ck.with_digits"(%{{.*}}, %[[Q]], %[[R]]) {axis = 1 : i64, inside = 0 : i64, of = "thread"}
// CHECK-NOT:    "ck.with_digits"
// CHECK:        "ck.load_fragment"(%[[WINDOW]]) {{.*}} registers = array<i32: 0,
// CHECK:        "ck.load_fragment"(%[[WINDOW]]) {{.*}} registers = array<i32: 8,
// CHECK-NOT:    arith.divui
// CHECK:        arith.cmpi ult
// CHECK:        scf.yield %{{.*}}, %{{.*}} : i32, i32
func.func @of_threads(%p: !llvm.ptr<1>, %places: i32, %c: i32 {ck.divisor = 8 : i64}, %row: i32, %place: i32, %from: i32 {ck.divisor = 8 : i64}, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %at = arith.subi %k, %from : i32
    %w = "ck.make_window"(%v, %zero, %at) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
  }
  return
}

// -----

// Four places for all lanes of a quad: each lane has the digits of one of them.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8", [32, 64]>

// CHECK-LABEL: func.func @of_quads
// CHECK:      "ck.thread_coordinate"() {axis = 1 : i64
// CHECK:      "ck.thread_coordinate"() {axis = 0 : i64, distribution = "r: 16@lane, d0: 4@lane"}
// CHECK:      scf.for
// CHECK:        "ck.with_digits"({{.*}}) {axis = 1 : i64, inside = 0 : i64, of = "quad"}
// CHECK-NOT:    "ck.with_digits"
// CHECK:        scf.yield
func.func @of_quads(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %row: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
  }
  return
}

// -----

// Rows of 16 are not whole steps, but what a wave loads lies in one: waves have the digits, all lanes the same, and both tiles
// of which waves are dealt the same parts share them. The comparison is a borrow of the scalar unit.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[128, ?0, ?1%16], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1%16]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[128, ?0, ?1%16], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1%16]); view(d0, d3) align 8", [128, 64]>

// CHECK-LABEL: func.func @of_waves
// CHECK:      "ck.thread_coordinate"() {axis = 0 : i64, distribution = "r: 64@lane, d0: 4@wave 16@y0"}
// CHECK-NOT:  "ck.thread_coordinate"
// CHECK:      scf.for %{{.*}} iter_args(%[[Q:.*]] = %{{.*}}, %[[R:.*]] = %{{.*}}) ->
// CHECK:        "ck.with_digits"(%{{.*}}, %[[Q]], %[[R]]) {axis = 1 : i64, inside = 0 : i64, of = "wave"}
// CHECK:        "ck.with_digits"(%{{.*}}, %[[Q]], %[[R]]) {axis = 1 : i64, inside = 0 : i64, of = "wave"}
// CHECK-NOT:    arith.cmpi
// CHECK:        arith.shrui
// CHECK:        scf.yield %{{.*}}, %{{.*}} : i32, i32
func.func @of_waves(%p: !llvm.ptr<1>, %rows: i32, %columns: i32 {ck.divisor = 16 : i64}, %pitch: i32, %row: i32, %n: i32) attributes {ck.waves = 4 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %other = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %1 = "ck.load_fragment"(%other) {distribution = "d0: 32@lane 4@y1, d1: 4@wave 2@lane 8@y0", registers = array<i32: 4, 5, 6, 7>} : (!window) -> vector<4xf16>
  }
  return
}

// -----

// Where the parts of a wave lie in more than two rows, threads have digits.
// CHECK-LABEL: func.func @of_many_rows
// CHECK:        "ck.with_digits"({{.*}}of = "thread"
// CHECK-NOT:    of = "wave"
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[128, ?0, ?1%16], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1%16]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[128, ?0, ?1%16], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1%16]); view(d0, d3) align 8", [128, 64]>
func.func @of_many_rows(%p: !llvm.ptr<1>, %rows: i32, %columns: i32 {ck.divisor = 16 : i64}, %pitch: i32, %row: i32, %n: i32) attributes {ck.waves = 4 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 16@lane 8@y1, d1: 4@y0 4@wave 4@lane", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
  }
  return
}

// -----

// The few places of a window have a bit each, and numbers behind the last have none: those of threads
// go on.
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?8%4], strides=[?1%8, 1]); d2 = left_pad(d0, length=?0, pad=?2); d3 = right_pad(d2, length=(?0 + ?2), pad=?3); d4 d5 = embed(d3, lengths=[?4, ?5], strides=[?6, ?7], few=1); d6 = merge(d5, d1, lengths=[?5, ?8%4]); view(d4, d6) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?8%4], strides=[?1%8, 1]); d2 = left_pad(d0, length=?0, pad=?2); d3 = right_pad(d2, length=(?0 + ?2), pad=?3); d4 d5 = embed(d3, lengths=[?4, ?5], strides=[?6, ?7], few=1); d6 = merge(d5, d1, lengths=[?5, ?8%4]); view(d4, d6) align 8", [32, 16]>

// CHECK-LABEL: func.func @of_few_places
// CHECK:      scf.for
// CHECK:        "ck.with_digits"({{.*}}inside = 8 : i64, of = "thread"
// CHECK:        arith.minui
// CHECK-NOT:    arith.minui
// CHECK:        scf.yield
func.func @of_few_places(%p: !llvm.ptr<1>, %rows: i32, %pitch: i32, %left: i32, %right: i32, %positions: i32, %places: i32, %stride: i32, %dilation: i32, %c: i32 {ck.divisor = 4 : i64}, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 16 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %rows, %pitch, %left, %right, %positions, %places, %stride, %dilation, %c) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 32@lane, d1: 2@y0 2@lane 4@y1", registers = array<i32: 4, 5, 6, 7>} : (!window) -> vector<4xf16>
  }
  return
}

// -----

// So do those of single elements, whose conditions are bits then.
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?8], strides=[?1, 1]); d2 = left_pad(d0, length=?0, pad=?2); d3 = right_pad(d2, length=(?0 + ?2), pad=?3); d4 d5 = embed(d3, lengths=[?4, ?5], strides=[?6, ?7], few=1); d6 = merge(d5, d1, lengths=[?5, ?8]); view(d4, d6)">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?8], strides=[?1, 1]); d2 = left_pad(d0, length=?0, pad=?2); d3 = right_pad(d2, length=(?0 + ?2), pad=?3); d4 d5 = embed(d3, lengths=[?4, ?5], strides=[?6, ?7], few=1); d6 = merge(d5, d1, lengths=[?5, ?8]); view(d4, d6)", [32, 32]>

// CHECK-LABEL: func.func @single_elements_of_few_places
// CHECK:      scf.for
// CHECK:        "ck.with_digits"({{.*}}inside = 0 : i64, of = "thread"
// CHECK-NOT:    arith.divui
// CHECK:        scf.yield
func.func @single_elements_of_few_places(%p: !llvm.ptr<1>, %rows: i32, %pitch: i32, %left: i32, %right: i32, %positions: i32, %places: i32, %stride: i32, %dilation: i32, %c: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 32 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %rows, %pitch, %left, %right, %positions, %places, %stride, %dilation, %c) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} : (!window) -> vector<1xf16>
  }
  return
}

// -----

// A length that is padded to a multiple is computed before the loop, and its digits are carried as those of others: waves
// have them where what each loads lies in one such multiple.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[128, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = right_pad(d2, length=?1, multiple=16); d4 = merge(d1, d3, lengths=[?0, (((?1 + 15) // 16) * 16)]); view(d0, d4) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[128, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = right_pad(d2, length=?1, multiple=16); d4 = merge(d1, d3, lengths=[?0, (((?1 + 15) // 16) * 16)]); view(d0, d4) align 8", [128, 64]>

// CHECK-LABEL: func.func @of_units
// CHECK:      %[[MORE:.*]] = arith.addi %arg2, %{{.*}} : i32
// CHECK:      %[[UNITS:.*]] = arith.divui %[[MORE]],
// CHECK:      %[[LENGTH:.*]] = arith.muli %[[UNITS]],
// CHECK:      %[[RADIX:.*]] = arith.maxui %[[LENGTH]],
// CHECK:      arith.remui %{{.*}}, %[[RADIX]]
// CHECK:      scf.for %{{.*}} iter_args(%[[Q:.*]] = %{{.*}}, %[[R:.*]] = %{{.*}}) ->
// CHECK:        "ck.with_digits"(%{{.*}}, %[[Q]], %[[R]]) {axis = 1 : i64, inside = 0 : i64, of = "wave"}
// CHECK-NOT:    arith.remui
// CHECK:        scf.yield %{{.*}}, %{{.*}} : i32, i32
func.func @of_units(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %row: i32, %n: i32) attributes {ck.waves = 4 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
  }
  return
}
