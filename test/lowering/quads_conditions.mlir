// Whether an element exists is found out once for the four places of a quad, where its lanes are at one place of a window:
// each lane compares its own, and what comes to the others is an offset, or one beyond every buffer.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%32], strides=[?4%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 d6 = embed(d4, lengths=[?7, ?8], strides=[1, 1]); d7 = merge(d6, d2, lengths=[?8, ?2%32]); d8 = merge(d0, d5, lengths=[?0, ?7]); view(d7, d8) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%32], strides=[?4%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 d6 = embed(d4, lengths=[?7, ?8], strides=[1, 1]); d7 = merge(d6, d2, lengths=[?8, ?2%32]); d8 = merge(d0, d5, lengths=[?0, ?7]); view(d7, d8) align 8", [64, 32]>

// CHECK-LABEL: llvm.func @one_place
// CHECK: %[[OWN:.*]] = arith.select %{{.*}}, %{{.*}}, %c-2147483648_i32 : i32
// CHECK: %[[FIRST:.*]] = rocdl.update.dpp %{{.*}}, %[[OWN]] with 0,
// CHECK: %[[AT:.*]] = arith.addi %[[FIRST]], %[[CHANNEL:.*]] : i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[AT]],
// CHECK-NOT: arith.select
// CHECK: %[[SECOND:.*]] = rocdl.update.dpp %{{.*}}, %[[OWN]] with 85,
// CHECK: arith.addi %[[SECOND]], %[[CHANNEL]] : i32
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: arith.select
// CHECK: rocdl.update.dpp %{{.*}}, %[[OWN]] with 170,
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: arith.select
// CHECK: rocdl.update.dpp %{{.*}}, %[[OWN]] with 255,
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @one_place(%p: !llvm.ptr<1>, %images: i32, %width: i32, %channels: i32, %place: i32, %image: i32, %left: i32, %right: i32, %positions: i32, %places: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %images, %width, %channels, %place, %image, %left, %right, %positions, %places) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %2 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 16, 17, 18, 19, 20, 21, 22, 23>} : (!window) -> vector<8xf16>
    %3 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%16], strides=[?4%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 d6 = embed(d4, lengths=[?7, ?8], strides=[1, 1]); d7 = merge(d6, d2, lengths=[?8, ?2%16]); d8 = merge(d0, d5, lengths=[?0, ?7]); view(d7, d8) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%16], strides=[?4%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 d6 = embed(d4, lengths=[?7, ?8], strides=[1, 1]); d7 = merge(d6, d2, lengths=[?8, ?2%16]); d8 = merge(d0, d5, lengths=[?0, ?7]); view(d7, d8) align 8", [64, 32]>

// Of 16 channels the lanes of a quad are at two places: each compares the four for itself.
// CHECK-LABEL: llvm.func @several_places
// CHECK-COUNT-4: arith.select
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @several_places(%p: !llvm.ptr<1>, %images: i32, %width: i32, %channels: i32, %place: i32, %image: i32, %left: i32, %right: i32, %positions: i32, %places: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %images, %width, %channels, %place, %image, %left, %right, %positions, %places) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %2 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 16, 17, 18, 19, 20, 21, 22, 23>} : (!window) -> vector<8xf16>
    %3 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%32], strides=[?4%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 d6 = embed(d4, lengths=[?7, ?8], strides=[1, 1]); d7 = merge(d6, d2, lengths=[?8, ?2%32]); d8 = merge(d0, d5, lengths=[?0, ?7]); d9 = right_pad(d8, length=(?0 * ?7), multiple=32); view(d7, d9) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2%32], strides=[?4%8, ?3%8, 1]); d3 = left_pad(d1, length=?1, pad=?5); d4 = right_pad(d3, length=(?1 + ?5), pad=?6); d5 d6 = embed(d4, lengths=[?7, ?8], strides=[1, 1]); d7 = merge(d6, d2, lengths=[?8, ?2%32]); d8 = merge(d0, d5, lengths=[?0, ?7]); d9 = right_pad(d8, length=(?0 * ?7), multiple=32); view(d7, d9) align 8", [64, 32]>

// So is whether it is behind the last place of all: each lane compares its own number, not all four.
// CHECK-LABEL: llvm.func @behind_the_last
// CHECK: %[[OWN:.*]] = arith.select %{{.*}}, %{{.*}}, %c-2147483648_i32 : i32
// CHECK: rocdl.update.dpp %{{.*}}, %[[OWN]] with 0,
// CHECK-NOT: arith.select {{.*}}, %c-2147483648_i32
// CHECK: rocdl.update.dpp %{{.*}}, %[[OWN]] with 85,
// CHECK-NOT: arith.select {{.*}}, %c-2147483648_i32
// CHECK: rocdl.update.dpp %{{.*}}, %[[OWN]] with 170,
// CHECK-NOT: arith.select {{.*}}, %c-2147483648_i32
// CHECK: rocdl.update.dpp %{{.*}}, %[[OWN]] with 255,
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @behind_the_last(%p: !llvm.ptr<1>, %images: i32, %width: i32, %channels: i32, %place: i32, %image: i32, %left: i32, %right: i32, %positions: i32, %places: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %images, %width, %channels, %place, %image, %left, %right, %positions, %places) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %2 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 16, 17, 18, 19, 20, 21, 22, 23>} : (!window) -> vector<8xf16>
    %3 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>} : (!window) -> vector<8xf16>
    return
  }
}
