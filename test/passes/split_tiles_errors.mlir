// Tiles that cannot be split are refused where they stand.

// RUN: ckmlir-opt %s --ck-split-tiles --split-input-file --verify-diagnostics

func.func @waves(%x: f32) attributes {ck.waves = 2 : i32} {
  // expected-error@+1 {{'d0: 64@lane' lies over 1 wave of 64 lanes, the workgroup has 2 of 64}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, "d0: 64@lane">
  return
}

// -----

func.func @lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-error@+1 {{'d0: 32@lane' lies over 1 wave of 32 lanes, the workgroup has 1 of 64}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[32], f32, "d0: 32@lane">
  return
}

// -----

func.func @unknown(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-error@+1 {{the distribution of a [64] tile is not known yet; run ck-infer-distributions first}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, "?">
  return
}

// -----

func.func @foreign(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-error@+1 {{comes from an operation that is not split; only ck operations make tiles}}
  %0 = builtin.unrealized_conversion_cast %x : f32 to !ck.tile<[64], f32, "d0: 64@lane">
  %1 = "ck.cast"(%0) : (!ck.tile<[64], f32, "d0: 64@lane">) -> !ck.tile<[64], f16, "d0: 64@lane">
  return
}

// -----

func.func @foreign_lds(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-error@+1 {{comes from an operation that is not split; only ck.to_lds and ck.copy_to_lds make LDS tensors}}
  %0 = builtin.unrealized_conversion_cast %x : f32 to !ck.lds<[64], f32>
  %1 = "ck.from_lds"(%0) : (!ck.lds<[64], f32>) -> !ck.tile<[64], f32, "d0: 64@lane">
  return
}

// -----

func.func @broadcast(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, "d0: 64@lane">
  // expected-error@+1 {{'d0: 64@lane' cannot be repeated along axis 1 to 'd0: 64@y0, d1: 64@lane' within each thread; redistribute it first}}
  %1 = "ck.broadcast"(%0) {axis = 1 : i64} : (!ck.tile<[64], f32, "d0: 64@lane">) -> !ck.tile<[64, 64], f32, "d0: 64@y0, d1: 64@lane">
  return
}

// -----

func.func @slice_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, "d0: 64@lane">
  // expected-error@+1 {{[0, 32) of dimension 0 is not a whole part of each thread's registers in 'd0: 64@lane'}}
  %1 = "ck.slice"(%0) {axis = 0 : i64, start = 0 : i64} : (!ck.tile<[64], f32, "d0: 64@lane">) -> !ck.tile<[32], f32, "r: 2@lane, d0: 32@lane">
  return
}

// -----

func.func @slice_result(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  // expected-error@+1 {{this part lies as 'd0: 64@lane, d1: 2@y0', it is declared as 'd0: 2@y0 32@lane.1, d1: 2@lane.0'}}
  %1 = "ck.slice"(%0) {axis = 1 : i64, start = 0 : i64} : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[64, 2], f32, "d0: 2@y0 32@lane.1, d1: 2@lane.0">
  return
}

// -----

func.func @reduce_result(%x: f32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  // expected-error@+1 {{reducing axis 1 of 'd0: 64@lane, d1: 4@y0' gives 'd0: 64@lane', not 'r: 64@lane, d0: 64@y0'; redistribute the result}}
  %1 = "ck.reduce"(%0) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[64], f32, "r: 64@lane, d0: 64@y0">
  return
}

// -----

func.func @scan_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-error@+1 {{lies over 1 wave of 63 lanes}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[21, 3], f32, "d0: 21@lane, d1: 3@lane">
  %1 = "ck.scan"(%0) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!ck.tile<[21, 3], f32, "d0: 21@lane, d1: 3@lane">) -> !ck.tile<[21, 3], f32, "d0: 21@lane, d1: 3@lane">
  return
}

// -----

func.func @reduce_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  // expected-error@+1 {{lies over 1 wave of 63 lanes}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[3], f32, "r: 21@lane, d0: 3@lane">
  return
}

// -----

func.func @scalar_code(%x: f32, %x2: i32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, "d0: 64@lane">
  %1 = "ck.map"() ({
    %a = "ck.element"(%0) : (!ck.tile<[64], f32, "d0: 64@lane">) -> f32
    // expected-error@+1 {{'arith.addui_extended' is not a scalar operation; element-wise code has arith and math operations only}}
    %s, %c = arith.addui_extended %x2, %x2 : i32, i1
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !ck.tile<[64], f32, "d0: 64@lane">
  return
}

// -----

// expected-error@+1 {{the kernel needs the attribute 'ck.waves', an integer}}
func.func @no_waves(%x: f32) {
  return
}
