// Where a wave loads a whole tile or nothing of it, and a loop changes which, a buffer of no bytes refuses it: no lane
// compares or chooses. Each condition chooses a size; every other 0 is one that LLVM does not know, or it would make one
// choice of two. Where lanes or loads differ in what is compared, each load's offset is chosen. In a last unit of which
// there is a part, one sign is joined with each load's offset: what lanes tell of it does not change in the loop.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0%16, ?1, ?2%128], strides=[?3%8, ?4%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 = merge(d4, d0, lengths=[?7, ?0%16]); d6 = right_pad(d5, length=(?7 * ?0%16), multiple=64); view(d2, d6) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0%16, ?1, ?2%128], strides=[?3%8, ?4%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 = merge(d4, d0, lengths=[?7, ?0%16]); d6 = right_pad(d5, length=(?7 * ?0%16), multiple=64); view(d2, d6) align 8", [128, 64]>

// CHECK-LABEL: llvm.func @of_waves
// CHECK:      %[[ZERO:.*]] = llvm.inline_asm "", "=s,0" %{{.*}} : (i32) -> i32
// CHECK:      ^bb1(
// CHECK:      %[[PLACE:.*]] = arith.cmpi ult
// CHECK:      %[[END:.*]] = arith.cmpi ult
// CHECK:      %[[SIZE:.*]] = arith.select %[[PLACE]], %{{.*}}, %{{.*}} : i32
// CHECK:      %[[BOTH:.*]] = arith.select %[[END]], %[[SIZE]], %[[ZERO]] : i32
// CHECK:      arith.extui %[[BOTH]]
// CHECK:      %[[BUFFER:.*]] = rocdl.make.buffer.rsrc
// CHECK-NOT:  arith.select
// CHECK:      rocdl.raw.ptr.buffer.load %[[BUFFER]],
// CHECK-NOT:  arith.select
// CHECK:      rocdl.raw.ptr.buffer.load %[[BUFFER]],
// CHECK:      llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @of_waves(%p: !llvm.ptr<1>, %images: i32, %length: i32, %c: i32, %image: i32, %place: i32, %left: i32, %right: i32, %places: i32, %q0: i32, %r0: i32, %again: i1) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    cf.br ^bb1(%zero, %q0, %r0 : i32, i32, i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32, %q: i32, %r: i32):
    %v = "ck.make_view"(%p, %images, %length, %c, %image, %place, %left, %right, %places) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %known = "ck.with_digits"(%w, %q, %r) {axis = 1, of = "wave", inside = 0} : (!window, i32, i32) -> !window
    %0 = "ck.load_fragment"(%known) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%known) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %step : i32
    %further = arith.addi %q, %step : i32
    cf.cond_br %again, ^bb1(%next, %further, %r : i32, i32, i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0%16, ?1, ?2%128], strides=[?3%8, ?4%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 = merge(d4, d0, lengths=[?7, ?0%16]); d6 = right_pad(d5, length=(?7 * ?0%16), multiple=64); view(d2, d6) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0%16, ?1, ?2%128], strides=[?3%8, ?4%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 = merge(d4, d0, lengths=[?7, ?0%16]); d6 = right_pad(d5, length=(?7 * ?0%16), multiple=64); view(d2, d6) align 8", [128, 64]>

// CHECK-LABEL: llvm.func @of_threads
// CHECK-NOT:  llvm.inline_asm "", "=s,0"
// CHECK:      ^bb1(
// CHECK:      rocdl.make.buffer.rsrc
// CHECK:      %[[OFFSET:.*]] = arith.select
// CHECK:      rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]],
// CHECK:      %[[OTHER:.*]] = arith.select
// CHECK:      rocdl.raw.ptr.buffer.load %{{.*}}, %[[OTHER]],
// CHECK:      llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @of_threads(%p: !llvm.ptr<1>, %images: i32, %length: i32, %c: i32, %image: i32, %place: i32, %left: i32, %right: i32, %places: i32, %q0: i32, %r0: i32, %again: i1) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    cf.br ^bb1(%zero, %q0, %r0 : i32, i32, i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32, %q: i32, %r: i32):
    %v = "ck.make_view"(%p, %images, %length, %c, %image, %place, %left, %right, %places) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %known = "ck.with_digits"(%w, %q, %r) {axis = 1, of = "thread", inside = 0} : (!window, i32, i32) -> !window
    %0 = "ck.load_fragment"(%known) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%known) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %step : i32
    %further = arith.addi %q, %step : i32
    cf.cond_br %again, ^bb1(%next, %further, %r : i32, i32, i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%128], strides=[?3%8, ?4%8, 1]); d3 = right_pad(d0, length=?0, multiple=16); d4 = merge(d1, d3, lengths=[?1, (((?0 + 15) // 16) * 16)]); d5 = right_pad(d4, length=(?1 * (((?0 + 15) // 16) * 16)), multiple=64); view(d2, d5) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%128], strides=[?3%8, ?4%8, 1]); d3 = right_pad(d0, length=?0, multiple=16); d4 = merge(d1, d3, lengths=[?1, (((?0 + 15) // 16) * 16)]); d5 = right_pad(d4, length=(?1 * (((?0 + 15) // 16) * 16)), multiple=64); view(d2, d5) align 8", [128, 64]>

// CHECK-LABEL: llvm.func @in_units
// CHECK:      ^bb1(
// CHECK:      %[[SIGN:.*]] = arith.andi %{{.*}}, %c-2147483648{{.*}} : i32
// CHECK:      %[[LEFT:.*]] = arith.subi
// CHECK:      %[[OWN:.*]] = llvm.inline_asm has_side_effects "", "=s,0" %[[LEFT]] : (i32) -> i32
// CHECK:      %[[OUTSIDE:.*]] = arith.andi %[[SIGN]], %[[OWN]]
// CHECK:      arith.select
// CHECK:      %[[BUFFER:.*]] = rocdl.make.buffer.rsrc
// CHECK-NOT:  arith.select
// CHECK:      %[[OFFSET:.*]] = arith.ori %{{.*}}, %[[OUTSIDE]]
// CHECK:      rocdl.raw.ptr.buffer.load %[[BUFFER]], %[[OFFSET]],
// CHECK-NOT:  arith.select
// CHECK:      arith.andi %{{.*}}, %[[OWN]]
// CHECK:      arith.ori
// CHECK:      rocdl.raw.ptr.buffer.load %[[BUFFER]],
// CHECK:      llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @in_units(%p: !llvm.ptr<1>, %images: i32, %places: i32, %c: i32, %image: i32, %place: i32, %q0: i32, %r0: i32, %again: i1) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    cf.br ^bb1(%zero, %q0, %r0 : i32, i32, i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32, %q: i32, %r: i32):
    %v = "ck.make_view"(%p, %images, %places, %c, %image, %place) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %known = "ck.with_digits"(%w, %q, %r) {axis = 1, of = "wave", inside = 0} : (!window, i32, i32) -> !window
    %0 = "ck.load_fragment"(%known) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%known) {distribution = "d0: 16@lane 8@y1, d1: 4@wave 4@lane 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %step : i32
    %further = arith.addi %q, %step : i32
    cf.cond_br %again, ^bb1(%next, %further, %r : i32, i32, i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}
