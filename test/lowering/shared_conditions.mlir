// Where a loop changes which lanes have an element, for all loads of a tile alike, one choice between a lane's offset and
// none is made for all of them, and how far loads are apart goes into the scalar offset.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[32, ?0], strides=[?1%8, 1]); d2 = right_pad(d1, length=?0, multiple=32); view(d0, d2) align 8">
!tile = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[32, ?0], strides=[?1%8, 1]); d2 = right_pad(d1, length=?0, multiple=32); view(d0, d2) align 8", [32, 32]>
!narrow = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, ?0], strides=[?1%2, 1]); d2 = right_pad(d1, length=?0, multiple=32); view(d0, d2) align 2">
!pairs = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, ?0], strides=[?1%2, 1]); d2 = right_pad(d1, length=?0, multiple=32); view(d0, d2) align 2", [64, 32]>
!ragged = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%8, 1]); d2 = right_pad(d0, length=?0, multiple=32); d3 = right_pad(d1, length=?1, multiple=32); view(d2, d3) align 8">
!edge = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%8, 1]); d2 = right_pad(d0, length=?0, multiple=32); d3 = right_pad(d1, length=?1, multiple=32); view(d2, d3) align 8", [32, 32]>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @columns
  // CHECK: ^bb1(%[[K:.*]]: i32):
  // CHECK: rocdl.make.buffer.rsrc
  // CHECK: %[[OFFSET:.*]] = arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]], %[[STEP:.*]], 0 :
  // CHECK: %[[FURTHER:.*]] = arith.addi %{{.*}}, %[[STEP]] : i32
  // CHECK-NOT: arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]], %[[FURTHER]], 0 :
  // CHECK: llvm.return
  func.func @columns(%p: !llvm.ptr<1>, %k: i32, %pitch: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%at: i32):
    %v = "ck.make_view"(%p, %k, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %at) : (!view, i32, i32) -> !tile
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!tile) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!tile) -> vector<8xf16>
    %next = arith.addi %at, %step : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }

  // Of sixteen loads each four have an offset, and the distances within them in common.
  // CHECK-LABEL: llvm.func @fours
  // CHECK: ^bb1(%[[K:.*]]: i32):
  // CHECK: rocdl.make.buffer.rsrc
  // CHECK: %[[OFFSET0:.*]] = arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET0]], %[[STEP:.*]], 0 :
  // CHECK-NOT: arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET0]], %[[S1:.*]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET0]], %[[S2:.*]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET0]], %[[S3:.*]], 0 :
  // CHECK: %[[OFFSET1:.*]] = arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET1]], %[[STEP]], 0 :
  // CHECK-NOT: arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET1]], %[[S1]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET1]], %[[S2]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET1]], %[[S3]], 0 :
  // CHECK: %[[OFFSET2:.*]] = arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET2]], %[[STEP]], 0 :
  // CHECK-NOT: arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET2]], %[[S1]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET2]], %[[S2]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET2]], %[[S3]], 0 :
  // CHECK: %[[OFFSET3:.*]] = arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET3]], %[[STEP]], 0 :
  // CHECK-NOT: arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET3]], %[[S1]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET3]], %[[S2]], 0 :
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET3]], %[[S3]], 0 :
  // CHECK: llvm.return
  func.func @fours(%p: !llvm.ptr<1>, %k: i32, %pitch: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%at: i32):
    %v = "ck.make_view"(%p, %k, %pitch) : (!llvm.ptr<1>, i32, i32) -> !narrow
    %w = "ck.make_window"(%v, %zero, %at) : (!narrow, i32, i32) -> !pairs
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 0, 1>} : (!pairs) -> vector<2xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 2, 3>} : (!pairs) -> vector<2xf16>
    %2 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 4, 5>} : (!pairs) -> vector<2xf16>
    %3 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 6, 7>} : (!pairs) -> vector<2xf16>
    %4 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 8, 9>} : (!pairs) -> vector<2xf16>
    %5 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 10, 11>} : (!pairs) -> vector<2xf16>
    %6 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 12, 13>} : (!pairs) -> vector<2xf16>
    %7 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 14, 15>} : (!pairs) -> vector<2xf16>
    %8 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 16, 17>} : (!pairs) -> vector<2xf16>
    %9 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 18, 19>} : (!pairs) -> vector<2xf16>
    %10 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 20, 21>} : (!pairs) -> vector<2xf16>
    %11 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 22, 23>} : (!pairs) -> vector<2xf16>
    %12 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 24, 25>} : (!pairs) -> vector<2xf16>
    %13 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 26, 27>} : (!pairs) -> vector<2xf16>
    %14 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 28, 29>} : (!pairs) -> vector<2xf16>
    %15 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@lane.1, d1: 16@lane.0 2@y1", registers = array<i32: 30, 31>} : (!pairs) -> vector<2xf16>
    %next = arith.addi %at, %step : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }

  // Rows behind the last are refused by the lane's offset: it has the distance between rows.
  // CHECK-LABEL: llvm.func @rows
  // CHECK: ^bb1(%[[K:.*]]: i32):
  // CHECK: rocdl.make.buffer.rsrc
  // CHECK: %[[FIRST:.*]] = arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[FIRST]], %[[STEP:.*]], 0 :
  // CHECK: %[[SECOND:.*]] = arith.select
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[SECOND]], %[[STEP]], 0 :
  // CHECK: llvm.return
  func.func @rows(%p: !llvm.ptr<1>, %rows: i32, %k: i32, %pitch: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%at: i32):
    %v = "ck.make_view"(%p, %rows, %k, %pitch) : (!llvm.ptr<1>, i32, i32, i32) -> !ragged
    %w = "ck.make_window"(%v, %zero, %at) : (!ragged, i32, i32) -> !edge
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!edge) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!edge) -> vector<8xf16>
    %next = arith.addi %at, %step : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}
