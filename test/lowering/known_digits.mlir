// A window whose digits are known is not divided: they are part of the offset, of a thread's the vector's, of the origin's
// the scalar's.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%8], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%8]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%8], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%8]); view(d0, d3) align 8", [64, 64]>

// Rows are a part of their own, found before the loop; what moves is found once for both loads.
// CHECK-LABEL: llvm.func @of_threads
// CHECK:      ^bb1(%[[K:.*]]: i32, %[[Q:.*]]: i32, %[[R:.*]]: i32):
// CHECK-NOT:  arith.divui
// CHECK-NOT:  arith.shrui {{.*}} : i64
// CHECK:      %[[PLACE:.*]] = arith.muli %{{.*}}, %[[Q]] : i32
// CHECK:      %[[PLACES:.*]] = arith.shli %[[PLACE]],
// CHECK:      %[[CHANNEL:.*]] = arith.shli %[[R]],
// CHECK:      %[[MOVES:.*]] = arith.addi %[[PLACES]], %[[CHANNEL]] : i32
// CHECK:      %[[FIRST:.*]] = arith.addi %[[MOVES]], %
// CHECK:      rocdl.raw.ptr.buffer.load %{{.*}}, %[[FIRST]], %
// CHECK:      %[[SECOND:.*]] = arith.addi %[[MOVES]], %
// CHECK:      rocdl.raw.ptr.buffer.load %{{.*}}, %[[SECOND]], %
module attributes {ck.target = "gfx942"} {
  func.func @of_threads(%p: !llvm.ptr<1>, %places: i32, %channels: i32, %row: i32, %place: i32, %c: i1, %q0: i32, %r0: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    cf.br ^bb1(%zero, %q0, %r0 : i32, i32, i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32, %q: i32, %r: i32):
    %v = "ck.make_view"(%p, %places, %channels, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %known = "ck.with_digits"(%w, %q, %r) {axis = 1, of = "thread", inside = 0} : (!window, i32, i32) -> !window
    %0 = "ck.load_fragment"(%known) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%known) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %step : i32
    %further = arith.addi %q, %zero : i32
    cf.cond_br %c, ^bb1(%next, %further, %r : i32, i32, i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// Before a loop, where they do not change, the origin's are in the scalar offset as well: the base is the same as in it.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8", [64, 64]>
// CHECK-LABEL: llvm.func @before_a_loop
// CHECK-SAME: %[[Q:[a-z0-9]+]]: i32 {llvm.inreg}, %[[R:[a-z0-9]+]]: i32 {llvm.inreg}) attributes
// CHECK-NOT:  llvm.getelementptr
// CHECK:      %[[PLACE:.*]] = arith.muli %[[Q]], %
// CHECK:      %[[CHANNEL:.*]] = arith.shli %[[R]],
// CHECK:      %[[SCALAR:.*]] = arith.addi %[[PLACE]], %[[CHANNEL]] : i32
// CHECK:      rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[SCALAR]],
module attributes {ck.target = "gfx942"} {
  func.func @before_a_loop(%p: !llvm.ptr<1>, %places: i32, %channels: i32, %row: i32, %place: i32, %q: i32, %r: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %places, %channels, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %known = "ck.with_digits"(%w, %q, %r) {axis = 1, of = "origin", inside = 0} : (!window, i32, i32) -> !window
    %0 = "ck.load_fragment"(%known) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8", [64, 64]>
// CHECK-LABEL: llvm.func @of_the_origin
// CHECK:      ^bb1(%[[Q:.*]]: i32, %[[R:.*]]: i32):
// CHECK-NOT:  arith.divui
// CHECK:      %[[PLACE:.*]] = arith.muli %[[Q]], %
// CHECK:      %[[CHANNEL:.*]] = arith.shli %[[R]],
// CHECK:      %[[SCALAR:.*]] = arith.addi %[[PLACE]], %[[CHANNEL]] : i32
// CHECK:      rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[SCALAR]],
module attributes {ck.target = "gfx942"} {
  func.func @of_the_origin(%p: !llvm.ptr<1>, %places: i32, %channels: i32, %row: i32, %place: i32, %c: i1, %q0: i32, %r0: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    cf.br ^bb1(%q0, %r0 : i32, i32) {ck.advances = array<i32: 0>}
  ^bb1(%q: i32, %r: i32):
    %v = "ck.make_view"(%p, %places, %channels, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %known = "ck.with_digits"(%w, %q, %r) {axis = 1, of = "origin", inside = 0} : (!window, i32, i32) -> !window
    %0 = "ck.load_fragment"(%known) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %next = arith.addi %q, %q : i32
    cf.cond_br %c, ^bb1(%next, %r : i32, i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// Of four places for all lanes of a quad each lane has the digits of one; the others take them from there.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[8, ?0, ?1], strides=[1, ?3%8, ?2%8]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3) align 8", [32, 64]>
// CHECK-LABEL: llvm.func @of_quads
// CHECK-NOT:  arith.divui
// CHECK:      rocdl.update.dpp {{.*}} with 0,
// CHECK:      rocdl.raw.ptr.buffer.load
// CHECK:      rocdl.update.dpp {{.*}} with 255,
// CHECK:      rocdl.raw.ptr.buffer.load
// CHECK-NOT:  arith.divui
// CHECK:      llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @of_quads(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %row: i32, %q: i32, %r: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %row) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %known = "ck.with_digits"(%w, %q, %r) {axis = 1, of = "quad", inside = 0} : (!window, i32, i32) -> !window
    %0 = "ck.load_fragment"(%known) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%known) {distribution = "d0: 4@lane.1 8@y1, d1: 16@lane.0 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    return
  }
}
