// Loads of a woven stage stand at even distances between the matrix instructions of its product, or, with `spacing`, so
// many matrix instructions apart from the first on.

// RUN: ckmlir-opt %s --ck-pipeline-loops | filecheck %s

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
// Two loads over eight matrix instructions: in the middle of either half.
// CHECK-LABEL: func.func @even
// CHECK:      ^bb2
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.mfma"
// CHECK:      "ck.load_fragment"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.mfma"
// CHECK:      "ck.load_fragment"
func.func @even(%p: !llvm.ptr<1>, %n: i32, %x: vector<4xf32>, %h: vector<4xf16>, %f: vector<1xf32>) -> (vector<4xf32>, vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r:2 = scf.for %i = %zero to %n step %step iter_args(%c = %x, %d = %f) -> (vector<4xf32>, vector<1xf32>) : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t0 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %t1 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %m0 = "ck.mfma"(%h, %h, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m4 = "ck.mfma"(%h, %h, %m3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m5 = "ck.mfma"(%h, %h, %m4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m6 = "ck.mfma"(%h, %h, %m5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m7 = "ck.mfma"(%h, %h, %m6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %s0 = arith.addf %d, %t0 {ck.stage = "sum"} : vector<1xf32>
    %s1 = arith.addf %s0, %t1 {ck.stage = "sum"} : vector<1xf32>
    scf.yield %m7, %s1 : vector<4xf32>, vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead load 1; order weave; step product, load, sum; lead 1; elements 1; fences products"}
  return %r#0, %r#1 : vector<4xf32>, vector<1xf32>
}

// Behind the second, and two further on.
// CHECK-LABEL: func.func @spaced
// CHECK:      ^bb2
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.mfma"
// CHECK:      "ck.load_fragment"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.mfma"
// CHECK:      "ck.load_fragment"
func.func @spaced(%p: !llvm.ptr<1>, %n: i32, %x: vector<4xf32>, %h: vector<4xf16>, %f: vector<1xf32>) -> (vector<4xf32>, vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r:2 = scf.for %i = %zero to %n step %step iter_args(%c = %x, %d = %f) -> (vector<4xf32>, vector<1xf32>) : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t0 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %t1 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %m0 = "ck.mfma"(%h, %h, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m4 = "ck.mfma"(%h, %h, %m3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m5 = "ck.mfma"(%h, %h, %m4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m6 = "ck.mfma"(%h, %h, %m5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m7 = "ck.mfma"(%h, %h, %m6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %s0 = arith.addf %d, %t0 {ck.stage = "sum"} : vector<1xf32>
    %s1 = arith.addf %s0, %t1 {ck.stage = "sum"} : vector<1xf32>
    scf.yield %m7, %s1 : vector<4xf32>, vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead load 1; order weave; step product, load, sum; lead 1; spacing 2; elements 1; fences products"}
  return %r#0, %r#1 : vector<4xf32>, vector<1xf32>
}

// As far apart as the product allows.
// CHECK-LABEL: func.func @wide
// CHECK:      ^bb2
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.mfma"
// CHECK:      "ck.load_fragment"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.load_fragment"
// CHECK:      "ck.mfma"
// CHECK-NOT:  "ck.mfma"
// CHECK:      "ck.load_fragment"
func.func @wide(%p: !llvm.ptr<1>, %n: i32, %x: vector<4xf32>, %h: vector<4xf16>, %f: vector<1xf32>) -> (vector<4xf32>, vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r:2 = scf.for %i = %zero to %n step %step iter_args(%c = %x, %d = %f) -> (vector<4xf32>, vector<1xf32>) : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %t0 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %t1 = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %m0 = "ck.mfma"(%h, %h, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m4 = "ck.mfma"(%h, %h, %m3) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m5 = "ck.mfma"(%h, %h, %m4) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m6 = "ck.mfma"(%h, %h, %m5) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m7 = "ck.mfma"(%h, %h, %m6) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %s0 = arith.addf %d, %t0 {ck.stage = "sum"} : vector<1xf32>
    %s1 = arith.addf %s0, %t1 {ck.stage = "sum"} : vector<1xf32>
    scf.yield %m7, %s1 : vector<4xf32>, vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead load 1; order weave; step product, load, sum; lead 1; spacing 9; elements 1; fences products"}
  return %r#0, %r#1 : vector<4xf32>, vector<1xf32>
}
}
