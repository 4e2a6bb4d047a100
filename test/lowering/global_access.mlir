// Loads and stores become buffer accesses: the tile's origin moves the base, a loop the scalar offset, lanes the vector
// offset; a predicate is there only for what the buffer's size does not refuse.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8", [16, 32]>

// Where the tile begins is a kernel argument: it goes into the base, with 64-bit arithmetic.
// CHECK-LABEL: llvm.func @origin
// CHECK-SAME: (%[[P:[a-z0-9]+]]: !llvm.ptr<1> {llvm.inreg}, %[[M:[a-z0-9]+]]: i32 {llvm.inreg}, %[[PITCH:[a-z0-9]+]]: i32 {llvm.inreg}, %[[ROW:[a-z0-9]+]]: i32
// CHECK: %[[LANE:.*]] = rocdl.workitem.id.x range <i32, 0, 64> : i32
// CHECK-DAG: %[[ROW64:.*]] = arith.extui %[[ROW]] : i32 to i64
// CHECK-DAG: %[[PITCH64:.*]] = arith.extui %[[PITCH]] : i32 to i64
// CHECK: llvm.getelementptr %[[P]][%{{.*}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
// CHECK: %[[BYTES:.*]] = arith.select
// CHECK-NEXT: %[[SIZE:.*]] = arith.extui %[[BYTES]] : i32 to i64
// CHECK: %[[RSRC:.*]] = rocdl.make.buffer.rsrc %{{.*}}, %{{.*}}, %[[SIZE]], %{{.*}} : <1> to <8>
// CHECK-NOT: arith.cmpi
// CHECK-NOT: arith.select
// CHECK: rocdl.raw.ptr.buffer.load %[[RSRC]], %{{.*}}, %{{.*}}, 0 : vector<4xi32>
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @origin(%p: !llvm.ptr<1>, %m: i32, %pitch: i32, %row: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

// What a loop advances goes into the scalar offset, a register's constant is added last.
// CHECK-LABEL: llvm.func @loop
// CHECK: ^bb1(%[[I:.*]]: i32):
// CHECK: %[[STEP:.*]] = arith.shli %[[I]], %{{.*}} : i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[NEAR:.*]], %[[STEP]], 0 : vector<2xi32>
// CHECK: %[[C:.*]] = arith.constant 8 : i32
// CHECK: %[[FAR:.*]] = arith.addi %{{.*}}, %[[C]] : i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[FAR]], %[[STEP]], 0 : vector<2xi32>
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[16, 512], strides=[512, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[16, 512], strides=[512, 1]); view(d0, d1) align 8", [16, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @loop(%p: !llvm.ptr<1>, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 32 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %zero, %i) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
    %u = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 4, 5, 6, 7>} : (!window) -> vector<4xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// Rows past the last lie past the end of the buffer: no predicate for them.
// CHECK-LABEL: llvm.func @ragged_rows
// CHECK-NOT: arith.cmpi {{[us]}}
// CHECK: rocdl.make.buffer.rsrc
// CHECK-NOT: arith.cmpi
// CHECK-NOT: arith.select
// CHECK: rocdl.raw.ptr.buffer.store
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8", [16, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @ragged_rows(%p: !llvm.ptr<1>, %m: i32, %pitch: i32, %row: i32, %x: vector<8xf16>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !window
    "ck.store_fragment"(%x, %w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xf16>, !window) -> ()
    return
  }
}

// -----

// Past the end of a row lies the next row: a predicate sends those lanes out of every buffer.
// CHECK-LABEL: llvm.func @ragged_columns
// CHECK-SAME: %[[K:[a-z0-9]+]]: i32 {llvm.inreg}, %[[PITCH:[a-z0-9]+]]: i32 {llvm.inreg})
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %{{.*}}, %[[K]] : i32
// CHECK-NOT: arith.cmpi {{[us]}}
// CHECK: %[[OUT:.*]] = arith.constant -2147483648 : i32
// CHECK: %[[OFFSET:.*]] = arith.select %[[INSIDE]], %{{.*}}, %[[OUT]] : i32
// CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[OFFSET]],
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[16, ?0%8], strides=[?1%8, 1]); d2 = right_pad(d1, length=?0%8, multiple=32); view(d0, d2) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[16, ?0%8], strides=[?1%8, 1]); d2 = right_pad(d1, length=?0%8, multiple=32); view(d0, d2) align 8", [16, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @ragged_columns(%p: !llvm.ptr<1>, %k: i32, %pitch: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %k, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

// Rows that a loop advances are not refused by the vector offset alone: the predicate stays.
// CHECK-LABEL: llvm.func @ragged_rows_of_a_loop
// CHECK: ^bb1
// CHECK: arith.cmpi ult
// CHECK: arith.select
// CHECK: rocdl.raw.ptr.buffer.load
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8", [16, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @ragged_rows_of_a_loop(%p: !llvm.ptr<1>, %m: i32, %pitch: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 16 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %i, %zero) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// Where a thread's accesses lie in several such rows, each gets the sign of how many rows are left, so that none needs a
// condition. A negative position counts as the largest.
// CHECK-LABEL: llvm.func @several_rows_of_a_loop
// CHECK-SAME: %[[M:[a-z0-9]+]]: i32 {llvm.inreg}, %[[PITCH:[a-z0-9]+]]: i32 {llvm.inreg}, %[[C:[a-z0-9]+]]: i1)
// CHECK: ^bb1(%[[I:.*]]: i32):
// CHECK: %[[COME:.*]] = arith.minui %[[I]], %{{.*}} : i32
// CHECK: %[[OWN:.*]] = arith.addi %{{.*}}, %[[M]] : i32
// CHECK: %[[DOWN:.*]] = arith.subi %{{.*}}, %[[COME]] : i32
// CHECK: %[[LEFT:.*]] = arith.addi %[[OWN]], %[[DOWN]] : i32
// CHECK: %[[LAST:.*]] = arith.addi %[[LEFT]], %{{.*}} : i32
// CHECK: %[[SIGN:.*]] = arith.andi %[[LAST]], %{{.*}} : i32
// CHECK: arith.ori %{{.*}}, %[[SIGN]] : i32
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: arith.cmpi {{[us]}}
// CHECK: arith.addi %[[LEFT]], %{{.*}} : i32
// CHECK: rocdl.raw.ptr.buffer.load
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=32); view(d2, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=32); view(d2, d1) align 8", [32, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @several_rows_of_a_loop(%p: !llvm.ptr<1>, %m: i32, %pitch: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 32 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %i, %zero) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %u = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// Rows that end behind 24 of 32 columns leave columns too, of which the loop changes nothing: their sign joins the offset
// first, which leaves one operation and the rows' sign to the loop.
// CHECK-LABEL: llvm.func @rows_that_are_short
// CHECK: ^bb1(%[[I:.*]]: i32):
// CHECK: arith.minui %[[I]], %{{.*}} : i32
// CHECK: %[[COLUMNS:.*]] = arith.addi %{{.*}}, %c23_i32 : i32
// CHECK: %[[FIXED:.*]] = arith.andi %[[COLUMNS]], %[[BIT:.*]] : i32
// CHECK: %[[JOINED:.*]] = arith.ori %{{.*}}, %[[FIXED]] : i32
// CHECK: %[[MOVING:.*]] = arith.andi %{{.*}}, %[[BIT]] : i32
// CHECK: arith.ori %[[JOINED]], %[[MOVING]] : i32
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: arith.cmpi {{[us]}}
// CHECK: arith.ori
// CHECK: rocdl.raw.ptr.buffer.load
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 24], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=32); d3 = right_pad(d1, length=24, multiple=32); view(d2, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 24], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=32); d3 = right_pad(d1, length=24, multiple=32); view(d2, d3) align 8", [32, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @rows_that_are_short(%p: !llvm.ptr<1>, %m: i32, %pitch: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %k = arith.constant 32 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%i: i32):
    %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %i, %zero) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %u = "ck.load_fragment"(%w) {distribution = "d0: 2@y0 16@lane, d1: 4@lane 8@y1", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    %next = arith.addi %i, %k : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }
}

// -----

// Where several lanes hold an element, only the first of them stores it.
// CHECK-LABEL: llvm.func @copies
// CHECK: arith.cmpi ult
// CHECK: arith.select
// CHECK: rocdl.raw.ptr.buffer.store
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[16], strides=[1]); view(d0) align 4", [16]>
module attributes {ck.target = "gfx942"} {
  func.func @copies(%p: !llvm.ptr<1>, %x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !window
    "ck.store_fragment"(%x, %w) {distribution = "r: 4@lane, d0: 16@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    return
  }
}

// -----

// A size whose lengths and strides are known to be small is computed in 32 bits, and one that cannot be negative is not
// asked for that; one number that is not known, and 64 bits and both ends are asked for, by shifts and a comparison with
// 0: comparisons of 64 bits as more or less are the vector unit's.
// CHECK-LABEL: llvm.func @known_to_be_small
// CHECK: %[[ROWS:.*]] = arith.select
// CHECK: %[[ALL:.*]] = arith.muli %[[ROWS]], %{{.*}} : i32
// CHECK-NEXT: %[[BYTES:.*]] = arith.shli %[[ALL]], {{.*}} : i32
// CHECK-NEXT: %[[SIZE:.*]] = arith.extui %[[BYTES]] : i32 to i64
// CHECK: rocdl.make.buffer.rsrc %{{.*}}, %{{.*}}, %[[SIZE]]
// CHECK-NOT: arith.{{min|max}}
// CHECK: %[[HIGH:.*]] = arith.shrui %[[ALL64:.*]], %c31_i64 : i64
// CHECK: %[[FITS:.*]] = arith.cmpi eq, %[[HIGH]], %c0_i64{{.*}} : i64
// CHECK: %[[BEYOND:.*]] = arith.andi %{{.*}}, %c-2147483648_i32
// CHECK: %[[LOW:.*]] = arith.trunci %[[ALL64]] : i64 to i32
// CHECK: %[[REACHED:.*]] = arith.select %[[FITS]], %[[LOW]], %[[BEYOND]] : i32
// CHECK: %[[SIZE64:.*]] = arith.extui %[[REACHED]] : i32 to i64
// CHECK: rocdl.make.buffer.rsrc %{{.*}}, %{{.*}}, %[[SIZE64]]
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1%8], strides=[?1%8, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1%8], strides=[?1%8, 1]); view(d0, d1) align 8", [16, 32]>
module attributes {ck.target = "gfx942"} {
  func.func @known_to_be_small(%p: !llvm.ptr<1>, %c: i1, %end: i32, %key: i32, %given: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %most = arith.constant 64 : i32
    %short = arith.constant 16777208 : i32
    %last = arith.maxsi %end, %key : i32
    %left = arith.subi %last, %key : i32
    %kept = arith.minsi %left, %most : i32
    %rows = arith.select %c, %kept, %zero : i32
    %pitch = arith.andi %given, %short : i32
    %v = "ck.make_view"(%p, %rows, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %v2 = "ck.make_view"(%p, %rows, %given) : (!llvm.ptr<1>, i32, i32) -> !view
    %w2 = "ck.make_window"(%v2, %zero, %zero) : (!view, i32, i32) -> !window
    %t2 = "ck.load_fragment"(%w2) {distribution = "d0: 16@lane, d1: 4@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    return
  }
}
