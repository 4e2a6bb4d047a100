// Coordinates that a loop does not advance evenly, that are divided by constants, or whose digits would take more registers
// than they save are left as they are; a second run changes nothing.

// RUN: ckmlir-opt %s --ck-carry-digits --split-input-file | filecheck %s
// RUN: ckmlir-opt %s --ck-carry-digits --ck-carry-digits --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1%64], strides=[?2%8, ?3%8, 1]); d3 = merge(d1, d2, lengths=[?0, ?1%64]); view(d0, d3) align 8", [64, 64]>

// Twice the index is not carried; a loop inside another one begins anew with each of its iterations.
// CHECK-LABEL: func.func @other_steps
// CHECK:      scf.for %{{.*}} step %{{[a-z0-9_]+}} :
// CHECK-NOT:  "ck.with_digits"
// CHECK:      scf.for %{{.*}} step %{{[a-z0-9_]+}} :
// CHECK:        arith.divui
// CHECK:        scf.for %{{.*}} iter_args
// CHECK:          "ck.with_digits"
// CHECK-NOT:      "ck.with_digits"
// CHECK:          scf.yield %{{.*}}, %{{.*}} : i32, i32
// CHECK-NOT:  scf.yield
// CHECK:      return
func.func @other_steps(%p: !llvm.ptr<1>, %places: i32, %c: i32 {ck.divisor = 64 : i64}, %row: i32, %place: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %twice = arith.addi %k, %k : i32
    %w = "ck.make_window"(%v, %zero, %twice) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
  }
  scf.for %j = %zero to %n step %step : i32 {
    scf.for %k = %zero to %n step %step : i32 {
      %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
      %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
      %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    }
  }
  return
}

// -----

// Divided by a constant is by shifts.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, 64], strides=[?1%8, ?2%8, 1]); d3 = merge(d1, d2, lengths=[?0, 64]); view(d0, d3) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, 64], strides=[?1%8, ?2%8, 1]); d3 = merge(d1, d2, lengths=[?0, 64]); view(d0, d3) align 8", [64, 64]>
// CHECK-LABEL: func.func @by_constants
// CHECK-NOT:  "ck.with_digits"
// CHECK:      return
func.func @by_constants(%p: !llvm.ptr<1>, %places: i32, %row: i32, %place: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %row, %place) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 8@lane, d1: 8@lane 8@y1", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
  }
  return
}

// -----

// Single elements of threads.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[64, ?0, ?1], strides=[?2, ?3, 1]); d3 = merge(d1, d2, lengths=[?0, ?1]); view(d0, d3)", [64, 64]>
// CHECK-LABEL: func.func @single_elements
// CHECK-NOT:  "ck.with_digits"
// CHECK:      return
func.func @single_elements(%p: !llvm.ptr<1>, %places: i32, %c: i32, %row: i32, %place: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %k = %zero to %n step %step : i32 {
    %v = "ck.make_view"(%p, %places, %c, %row, %place) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %k) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@y0, d1: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf16>
  }
  return
}
