// Tiles that cannot agree on a distribution, or that nothing determines, are refused where the author can see why.

// RUN: ckmlir-opt %s --ck-infer-distributions --split-input-file --verify-diagnostics

!one = !ck.tile<[128], f32, "d0: 2@y0 64@lane">
!two = !ck.tile<[128], f32, "d0: 64@lane 2@y0">
!unknown = !ck.tile<[128], f32, "?">
func.func @conflict(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-note@+1 {{the other is determined here}}
  %0 = "ck.splat"(%x) : (f32) -> !one
  // expected-note@+1 {{the first is determined here}}
  %1 = "ck.splat"(%x) : (f32) -> !two
  %2 = "ck.map"() ({
    %a = "ck.element"(%0) : (!one) -> f32
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !unknown
  // expected-error@+1 {{its tiles need one distribution, but one lies as 'd0: 64@lane 2@y0', another as 'd0: 2@y0 64@lane'; redistribute one of them}}
  %3 = "ck.map"() ({
    %a = "ck.element"(%1) : (!two) -> f32
    %b = "ck.element"(%2) : (!unknown) -> f32
    %c = arith.addf %a, %b : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !unknown
  return
}

// -----

func.func @undetermined(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-error@+1 {{nothing determines the distribution of this [128] tile; give one}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[128], f32, "?">
  return
}

// -----

!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)", [64]>
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)">
// expected-error@+1 {{the kernel needs the attribute 'ck.waves', an integer: its workgroup's waves, `ck.waves = 4 : i32`}}
func.func @no_waves(%p: !llvm.ptr<1>, %o: i32) {
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
  %w = "ck.make_window"(%v, %o) : (!view, i32) -> !window
  %0 = "ck.load"(%w) : (!window) -> !ck.tile<[64], f32, "?">
  return
}

// -----

// expected-error@+1 {{its blocks take pointers, scalars and vectors, not !ck.tile<[64], f32, "banana">}}
func.func @argument(%t: !ck.tile<[64], f32, "banana">) {
  return
}

// -----

func.func @arms(%x: f32, %c: i1) attributes {ck.waves = 1 : i32} {
  %0 = scf.if %c -> (!ck.tile<[128], f32, "?">) {
    // expected-note@+1 {{the first is determined here}}
    %1 = "ck.splat"(%x) : (f32) -> !ck.tile<[128], f32, "d0: 64@lane 2@y0">
    %2 = "ck.map"() ({
      %a = "ck.element"(%1) : (!ck.tile<[128], f32, "d0: 64@lane 2@y0">) -> f32
      "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) : () -> !ck.tile<[128], f32, "?">
    scf.yield %2 : !ck.tile<[128], f32, "?">
  } else {
    // expected-note@+1 {{the other is determined here}}
    %1 = "ck.splat"(%x) : (f32) -> !ck.tile<[128], f32, "d0: 2@y0 64@lane">
    // expected-error@+1 {{its tiles need one distribution, but one lies as 'd0: 64@lane 2@y0', another as 'd0: 2@y0 64@lane'; redistribute one of them}}
    %2 = "ck.map"() ({
      %a = "ck.element"(%1) : (!ck.tile<[128], f32, "d0: 2@y0 64@lane">) -> f32
      "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) : () -> !ck.tile<[128], f32, "?">
    scf.yield %2 : !ck.tile<[128], f32, "?">
  }
  return
}
