// Accesses count from where the window starts: they are no wider than what is known to divide its origin along the rows,
// however wide the view would allow them to be.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!tile = !ck.tile<[16, 32], f16, "d0: 16@lane, d1: 4@lane 8@y0">
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 512], strides=[512, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 512], strides=[512, 1]); view(d0, d1) align 8", [16, 32]>

// Where rows begin does not matter, columns at any place are accessed one by one.
// CHECK-LABEL: func.func @anywhere
// CHECK-COUNT-8: "ck.load_fragment"{{.*}} -> vector<1xf16>
// CHECK-LABEL: func.func @any_row
// CHECK: "ck.load_fragment"{{.*}} -> vector<8xf16>
func.func @anywhere(%p: !llvm.ptr<1>, %o: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%v, %zero, %o) : (!view, i32, i32) -> !window
  %t = "ck.load"(%w) : (!window) -> !tile
  return
}
func.func @any_row(%p: !llvm.ptr<1>, %o: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%v, %o, %zero) : (!view, i32, i32) -> !window
  %t = "ck.load"(%w) : (!window) -> !tile
  return
}

// What loops add is known: their start, their step, and what they carry.
// CHECK-LABEL: func.func @loops
// CHECK: "ck.load_fragment"{{.*}} -> vector<8xf16>
// CHECK: "ck.load_fragment"{{.*}} -> vector<4xf16>
// CHECK: "ck.load_fragment"{{.*}} -> vector<2xf16>
func.func @loops(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %sixteen = arith.constant 16 : i32
  %four = arith.constant 4 : i32
  %six = arith.constant 6 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
  %end = scf.for %i = %zero to %n step %sixteen iter_args(%at = %four) -> (i32) : i32 {
    %by_index = "ck.move_window"(%w, %i, %i) : (!window, i32, i32) -> !window
    %0 = "ck.load"(%by_index) : (!window) -> !tile
    %carried = "ck.move_window"(%by_index, %zero, %at) : (!window, i32, i32) -> !window
    %1 = "ck.load"(%carried) : (!window) -> !tile
    %next = arith.addi %at, %sixteen : i32
    scf.yield %next : i32
  }
  %behind = arith.addi %end, %six : i32
  %last = "ck.move_window"(%w, %zero, %behind) : (!window, i32, i32) -> !window
  %2 = "ck.load"(%last) : (!window) -> !tile
  return
}
