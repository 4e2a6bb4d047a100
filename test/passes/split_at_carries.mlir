// Where digits carry between turns of a steady loop only, the turns in which none carries have a loop of their own, in which
// nothing but the last digit advances.

// RUN: ckmlir-opt %s --split-input-file --pass-pipeline='ck-carry-digits,ck-pipeline-loops,ck-split-at-carries' | filecheck %s
// RUN: ckmlir-opt %s --split-input-file --pass-pipeline='ck-carry-digits,ck-pipeline-loops,ck-split-at-carries,ck-split-at-carries' | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 d3 = embed(offset, lengths=[64, ?0, ?1, ?2%128], strides=[?3%8, ?4%8, ?5%8, 1]); d4 = merge(d1, d2, d3, lengths=[?0, ?1, ?2%128]); view(d0, d4) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 d3 = embed(offset, lengths=[64, ?0, ?1, ?2%128], strides=[?3%8, ?4%8, ?5%8, 1]); d4 = merge(d1, d2, d3, lengths=[?0, ?1, ?2%128]); view(d0, d4) align 8", [64, 64]>

// Two steps of 64 are a turn, and 128 divide the channels.
// CHECK-LABEL: func.func @whole_turns
// CHECK-SAME:  i32, %[[C:[a-z0-9]+]]: i32 {ck.divisor = 128 : i64}
// CHECK:       %[[LENGTH:.*]] = arith.maxui %[[C]],
// CHECK:       cf.cond_br %{{[0-9]+}}, ^[[FIRST:bb[0-9]+]]({{.*}} {ck.advances = array<i32: 0, 1>}

// The first turn: how far it is to the next carry; both steps are at the same digits, but for the last one.
// CHECK:       ^[[FIRST]](%[[I:[a-z0-9]+]]: i32, %[[Y:[a-z0-9]+]]: i32, %[[X:[a-z0-9]+]]: i32, %[[Z:[a-z0-9]+]]: i32
// CHECK:         %[[AHEAD:.*]] = arith.subi %[[LENGTH]], %[[Z]] : i32
// CHECK:         %[[REST:.*]] = arith.subi %[[END:.*]], %[[I]] : i32
// CHECK:         %[[LEAST:.*]] = arith.minsi %[[AHEAD]], %[[REST]] : i32
// CHECK:         %[[LIMIT:.*]] = arith.addi %[[I]], %[[LEAST]] : i32
// CHECK:         %[[SHIFT:.*]] = arith.subi %[[Z]], %[[I]] : i32
// CHECK:         "ck.with_digits"(%{{.*}}, %[[Y]], %[[X]], %[[Z]])
// CHECK:         %[[TURN:.*]] = arith.constant 128 : i32
// CHECK:         arith.addi %[[Z]], %[[TURN]]
// CHECK:         %[[SECOND:.*]] = arith.addi %[[Z]], %{{.*}} : i32
// CHECK:         "ck.with_digits"(%{{.*}}, %[[Y]], %[[X]], %[[SECOND]])
// CHECK:         llvm.inline_asm has_side_effects "", "s,s,s"
// CHECK:         %[[STAYS:.*]] = arith.cmpi slt, %[[NEXT:.*]], %[[LIMIT]] : i32
// CHECK:         cf.cond_br %[[STAYS]] weights([1, 1000]), ^[[TURNS:bb[0-9]+]](%[[NEXT]]{{.*}}), ^[[BEHIND:bb[0-9]+]]({{.*}}) {ck.advances = array<i32: 0>}

// The others: two additions of the last digit, and nothing of the rest.
// CHECK:       ^[[TURNS]](%[[J:[a-z0-9]+]]: i32
// CHECK-NOT:     arith.minui
// CHECK:         %[[LAST:.*]] = arith.addi %[[SHIFT]], %[[J]] : i32
// CHECK-NOT:     arith.minui
// CHECK:         "ck.with_digits"(%{{.*}}, %[[Y]], %[[X]], %[[LAST]])
// CHECK-NOT:     arith.minui
// CHECK:         "ck.with_digits"(%{{.*}}, %[[Y]], %[[X]], %{{.*}})
// CHECK-NOT:     arith.minui
// CHECK:         arith.cmpi slt, %{{.*}}, %[[LIMIT]] : i32
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[TURNS]]({{.*}}), ^[[CARRYING:bb[0-9]+]] {ck.advances = array<i32: 0>}

// Where their loop ends all digits advance.
// CHECK:       ^[[CARRYING]]:
// CHECK-COUNT-3: arith.minui
// CHECK:         cf.br ^[[BEHIND]](
// CHECK:       ^[[BEHIND]](
// CHECK:         %[[MORE:.*]] = arith.cmpi slt, %{{.*}}, %[[END]] : i32
// CHECK:         cf.cond_br %[[MORE]], ^[[FIRST]]({{.*}} {ck.advances = array<i32: 0>}
func.func @whole_turns(%p: !llvm.ptr<1>, %ys: i32, %xs: i32, %c: i32 {ck.divisor = 128 : i64}, %row: i32, %y: i32, %x: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %ys, %xs, %c, %row, %y, %x) {ck.stage = "load"} : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) {ck.stage = "load"} : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
  } {ck.schedule = "schedule two 1; unroll 2"}
  return
}

// -----

// Where 64 divide the channels digits may carry within a turn of two steps, so each step of the first turn has digits of its
// own. The other turns are at those of its last step.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8", [64, 64]>
!views = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%128], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%128]); view(d0, d3) align 8">
!windows = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%128], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%128]); view(d0, d3) align 8", [64, 64]>

// CHECK-LABEL: func.func @parts_of_turns
// CHECK:       ^[[FIRST:bb[0-9]+]](%[[I:[a-z0-9]+]]: i32, %[[PLACE:[a-z0-9]+]]: i32, %[[Z:[a-z0-9]+]]: i32)
// CHECK:         "ck.with_digits"(%{{.*}}, %[[PLACE]], %[[Z]])
// CHECK:         %[[SECOND:.*]] = arith.minui
// CHECK:         %[[AHEAD:.*]] = arith.subi %{{.*}}, %[[SECOND]] : i32
// CHECK:         %[[REST:.*]] = arith.subi %{{.*}}, %[[I]] : i32
// CHECK:         %[[LEAST:.*]] = arith.minsi %[[AHEAD]], %[[REST]] : i32
// CHECK:         %[[LIMIT:.*]] = arith.addi %[[I]], %[[LEAST]] : i32
// CHECK:         %[[FROM:.*]] = arith.subi %[[SECOND]], %[[I]] : i32
// CHECK:         %[[BEFORE:.*]] = arith.constant 64 : i32
// CHECK:         %[[SHIFT:.*]] = arith.subi %[[FROM]], %[[BEFORE]] : i32
// CHECK:         %[[THERE:.*]] = arith.minui
// CHECK:         "ck.with_digits"(%{{.*}}, %[[THERE]], %[[SECOND]])
// CHECK:         arith.cmpi slt, %{{.*}}, %[[LIMIT]] : i32
// CHECK:         cf.cond_br %{{.*}} weights([1, 1000]), ^[[TURNS:bb[0-9]+]](
// CHECK:       ^[[TURNS]](%[[J:[a-z0-9]+]]: i32
// CHECK:         %[[LAST:.*]] = arith.addi %[[SHIFT]], %[[J]] : i32
// CHECK-NOT:     arith.minui
// CHECK:         "ck.with_digits"(%{{.*}}, %[[THERE]], %[[LAST]])
// CHECK-NOT:     arith.minui
// CHECK:         "ck.with_digits"(%{{.*}}, %[[THERE]], %{{.*}})
// CHECK-NOT:     arith.minui
// CHECK:         cf.cond_br %{{[0-9]+}}, ^[[TURNS]]({{.*}}), ^[[CARRYING:bb[0-9]+]] {ck.advances = array<i32: 0>}
// CHECK:       ^[[CARRYING]]:
// CHECK-COUNT-2: arith.minui
func.func @parts_of_turns(%p: !llvm.ptr<1>, %places: i32, %c: i32 {ck.divisor = 64 : i64}, %row: i32, %place: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
  } {ck.schedule = "schedule two 1; unroll 2"}
  return
}

// So it is where 128 divide them and the loop begins within a turn, or may do so.
// CHECK-LABEL: func.func @from_within
// CHECK:         %[[SECOND:.*]] = arith.minui
// CHECK:         %[[THERE:.*]] = arith.minui
// CHECK:         "ck.with_digits"(%{{.*}}, %[[THERE]], %[[SECOND]])
// CHECK:         weights([1, 1000])
func.func @from_within(%p: !llvm.ptr<1>, %places: i32, %c: i32 {ck.divisor = 128 : i64}, %row: i32, %place: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %step to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !views
    %w = "ck.make_window"(%v, %zero, %k) : (!views, i32, i32) -> !windows
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!windows) -> vector<8xf16>
  } {ck.schedule = "schedule two 1; unroll 2"}
  return
}

// CHECK-LABEL: func.func @from_anywhere
// CHECK:         %[[SECOND:.*]] = arith.minui
// CHECK:         %[[THERE:.*]] = arith.minui
// CHECK:         "ck.with_digits"(%{{.*}}, %[[THERE]], %[[SECOND]])
// CHECK:         weights([1, 1000])
func.func @from_anywhere(%p: !llvm.ptr<1>, %places: i32, %c: i32 {ck.divisor = 128 : i64}, %row: i32, %place: i32, %begin: i32 {ck.divisor = 64 : i64}, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %begin to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !views
    %w = "ck.make_window"(%v, %zero, %k) : (!views, i32, i32) -> !windows
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!windows) -> vector<8xf16>
  } {ck.schedule = "schedule two 1; unroll 2"}
  return
}

// The loop stays as it is where it is not known how far a turn advances.
// CHECK-LABEL: func.func @unknown_steps
// CHECK:       "ck.with_digits"(%{{.*}}) {axis = 1 : i64, inside = 0 : i64, of = "origin"}
// CHECK-NOT:   weights
// CHECK:       return
func.func @unknown_steps(%p: !llvm.ptr<1>, %places: i32, %c: i32 {ck.divisor = 128 : i64}, %row: i32, %place: i32, %step: i32 {ck.divisor = 64 : i64}, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !views
    %w = "ck.make_window"(%v, %zero, %k) : (!views, i32, i32) -> !windows
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!windows) -> vector<8xf16>
  } {ck.schedule = "schedule two 1; unroll 2"}
  return
}
