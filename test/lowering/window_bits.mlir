// Which places of a window with few places exist is one number, of which a load shifts the bit of its place to the sign of
// its offset: no load compares a coordinate.

// RUN: ckmlir-opt %s --split-input-file --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 8], strides=[?1%8, 1]); d2 = left_pad(d0, length=?0, pad=?2); d3 = right_pad(d2, length=(?0 + ?2), pad=?3); d4 d5 = embed(d3, lengths=[?4, ?5], strides=[?6, ?7], few=1); d6 = merge(d5, d1, lengths=[?5, 8]); view(d4, d6) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 8], strides=[?1%8, 1]); d2 = left_pad(d0, length=?0, pad=?2); d3 = right_pad(d2, length=(?0 + ?2), pad=?3); d4 d5 = embed(d3, lengths=[?4, ?5], strides=[?6, ?7], few=1); d6 = merge(d5, d1, lengths=[?5, 8]); view(d4, d6) align 8", [64, 8]>

// CHECK-LABEL: llvm.func @bits
// CHECK: ^bb1(%[[K:.*]]: i32):
// CHECK: %[[NUMBER:.*]] = arith.shrui %[[K]], %{{.*}} exact : i32
// CHECK: %[[MISSING:.*]] = llvm.intr.bitreverse
// CHECK: %[[BIT:.*]] = arith.minui %[[NUMBER]], %{{.*}} : i32
// CHECK: %[[SHIFTED:.*]] = arith.shli %[[MISSING]], %[[BIT]] : i32
// CHECK: %[[GONE:.*]] = arith.andi %[[SHIFTED]], %{{.*}} : i32
// CHECK: %[[OFFSET:.*]] = arith.ori %{{.*}}, %[[GONE]] : i32
// CHECK-NOT: arith.cmpi ult
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]],
module attributes {ck.target = "gfx942"} {
  func.func @bits(%p: !llvm.ptr<1>, %rows: i32, %pitch: i32, %left: i32, %right: i32, %positions: i32, %places: i32, %stride: i32, %dilation: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %eight = arith.constant 8 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32):
    %v = "ck.make_view"(%p, %rows, %pitch, %left, %right, %positions, %places, %stride, %dilation) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %eight : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// Where only each dimension has few places, each has a number, and the bits that are shifted out of both are joined.

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 8], strides=[?2%8, 8, 1]); d3 = left_pad(d0, length=?0, pad=?3); d4 = right_pad(d3, length=(?0 + ?3), pad=?3); d5 d6 = embed(d4, lengths=[?4, ?5], strides=[1, 1], few=2); d7 = left_pad(d1, length=?1, pad=?3); d8 = right_pad(d7, length=(?1 + ?3), pad=?3); d9 d10 = embed(d8, lengths=[?4, ?5], strides=[1, 1], few=2); view(d5, d9, d6, d10, d2) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 8], strides=[?2%8, 8, 1]); d3 = left_pad(d0, length=?0, pad=?3); d4 = right_pad(d3, length=(?0 + ?3), pad=?3); d5 d6 = embed(d4, lengths=[?4, ?5], strides=[1, 1], few=2); d7 = left_pad(d1, length=?1, pad=?3); d8 = right_pad(d7, length=(?1 + ?3), pad=?3); d9 d10 = embed(d8, lengths=[?4, ?5], strides=[1, 1], few=2); view(d5, d9, d6, d10, d2) align 8", [64, 1, 1, 1, 8]>

// CHECK-LABEL: llvm.func @bits_of_each
// CHECK: ^bb1(%[[K:.*]]: i32):
// CHECK: %[[ROWS:.*]] = llvm.intr.bitreverse
// CHECK: %[[OF_ROW:.*]] = arith.shli %[[ROWS]], %{{.*}} : i32
// CHECK: %[[COLUMNS:.*]] = llvm.intr.bitreverse
// CHECK: %[[OF_COLUMN:.*]] = arith.shli %[[COLUMNS]], %{{.*}} : i32
// CHECK: %[[EITHER:.*]] = arith.ori %[[OF_ROW]], %[[OF_COLUMN]] : i32
// CHECK: %[[GONE:.*]] = arith.andi %[[EITHER]], %{{.*}} : i32
// CHECK: %[[OFFSET:.*]] = arith.ori %{{.*}}, %[[GONE]] : i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]],
module attributes {ck.target = "gfx942"} {
  func.func @bits_of_each(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %pad: i32, %positions: i32, %places: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32):
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %pad, %positions, %places) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero, %k, %k, %zero) : (!view, i32, i32, i32, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: , d2: , d3: , d4: 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %one : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// The bit of a dimension whose place no loop changes is joined with the offset apart, by a maximum, which LLVM moves out of
// the loop.

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 8], strides=[?2%8, 8, 1]); d3 = left_pad(d0, length=?0, pad=?3); d4 = right_pad(d3, length=(?0 + ?3), pad=?3); d5 d6 = embed(d4, lengths=[?4, ?5], strides=[1, 1], few=2); d7 = left_pad(d1, length=?1, pad=?3); d8 = right_pad(d7, length=(?1 + ?3), pad=?3); d9 d10 = embed(d8, lengths=[?4, ?5], strides=[1, 1], few=2); view(d5, d9, d6, d10, d2) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 8], strides=[?2%8, 8, 1]); d3 = left_pad(d0, length=?0, pad=?3); d4 = right_pad(d3, length=(?0 + ?3), pad=?3); d5 d6 = embed(d4, lengths=[?4, ?5], strides=[1, 1], few=2); d7 = left_pad(d1, length=?1, pad=?3); d8 = right_pad(d7, length=(?1 + ?3), pad=?3); d9 d10 = embed(d8, lengths=[?4, ?5], strides=[1, 1], few=2); view(d5, d9, d6, d10, d2) align 8", [64, 1, 1, 1, 8]>

// CHECK-LABEL: llvm.func @a_column_that_rests
// CHECK: ^bb1(%[[K:.*]]: i32):
// CHECK: %[[ROWS:.*]] = llvm.intr.bitreverse
// CHECK: %[[OF_ROW:.*]] = arith.shli %[[ROWS]], %{{.*}} : i32
// CHECK: %[[COLUMNS:.*]] = llvm.intr.bitreverse
// CHECK: %[[OF_COLUMN:.*]] = arith.shli %[[COLUMNS]], %{{.*}} : i32
// CHECK: %[[OUTSIDE:.*]] = arith.andi %[[OF_COLUMN]], %{{.*}} : i32
// CHECK: %[[RESTS:.*]] = arith.maxui %{{.*}}, %[[OUTSIDE]] : i32
// CHECK: %[[GONE:.*]] = arith.andi %[[OF_ROW]], %{{.*}} : i32
// CHECK: %[[OFFSET:.*]] = arith.ori %[[RESTS]], %[[GONE]] : i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]],
module attributes {ck.target = "gfx942"} {
  func.func @a_column_that_rests(%p: !llvm.ptr<1>, %rows: i32, %columns: i32, %pitch: i32, %pad: i32, %positions: i32, %places: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%k: i32):
    %v = "ck.make_view"(%p, %rows, %columns, %pitch, %pad, %positions, %places) : (!llvm.ptr<1>, i32, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero, %k, %one, %zero) : (!view, i32, i32, i32, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: , d2: , d3: , d4: 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %next = arith.addi %k, %one : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}
