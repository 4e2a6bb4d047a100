// Integers with zero points and scales say what their types lack.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

func.func @floats(%x: !ck.tile<[64, 4], i8, "?">, %s: !ck.tile<[64, 8], f16, "?">) {
  // expected-error@+1 {{'ck.dequantize' integers have zero points, floats have not}}
  %0 = "ck.dequantize"(%x, %s, %s) {format = "fp4", operandSegmentSizes = array<i32: 1, 1, 1>} : (!ck.tile<[64, 4], i8, "?">, !ck.tile<[64, 8], f16, "?">, !ck.tile<[64, 8], f16, "?">) -> !ck.tile<[64, 8], f16, "?">
  return
}

// -----

func.func @wide(%x: !ck.tile<[64, 6], i8, "?">, %s: !ck.tile<[64, 8], f16, "?">) {
  // expected-error@+1 {{'ck.dequantize' elements are of 4 bits, and these are of 6}}
  %0 = "ck.dequantize"(%x, %s) {format = "fp6", operandSegmentSizes = array<i32: 1, 0, 1>} : (!ck.tile<[64, 6], i8, "?">, !ck.tile<[64, 8], f16, "?">) -> !ck.tile<[64, 8], f16, "?">
  return
}

// -----

func.func @powers(%x: !ck.tile<[64, 4], i8, "?">, %s: !ck.tile<[64, 8], f8E8M0FNU, "?">) {
  // expected-error@+1 {{'ck.dequantize' scales are f16 or bf16 or f32, not f8E8M0FNU}}
  %0 = "ck.dequantize"(%x, %s) {format = "i4", operandSegmentSizes = array<i32: 1, 0, 1>} : (!ck.tile<[64, 4], i8, "?">, !ck.tile<[64, 8], f8E8M0FNU, "?">) -> !ck.tile<[64, 8], f16, "?">
  return
}

// -----

func.func @nothing(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.dequantize' needs zero points or scales; without, ck.unpack has the integers}}
  %0 = "ck.dequantize"(%x) {format = "i4", operandSegmentSizes = array<i32: 1, 0, 0>} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 8], i8, "?">
  return
}

// -----

func.func @lengths(%x: !ck.tile<[64, 4], i8, "?">, %s: !ck.tile<[64, 4], f16, "?">) {
  // expected-error@+1 {{'ck.dequantize' scales are [64, 8], not [64, 4]}}
  %0 = "ck.dequantize"(%x, %s) {format = "u4", operandSegmentSizes = array<i32: 1, 0, 1>} : (!ck.tile<[64, 4], i8, "?">, !ck.tile<[64, 4], f16, "?">) -> !ck.tile<[64, 8], f16, "?">
  return
}

// -----

func.func @zeros(%x: !ck.tile<[64, 4], i8, "?">, %z: !ck.tile<[64, 8], f32, "?">, %s: !ck.tile<[64, 8], f16, "?">) {
  // expected-error@+1 {{'ck.dequantize' zero points are f16, not f32}}
  %0 = "ck.dequantize"(%x, %z, %s) {format = "u4", operandSegmentSizes = array<i32: 1, 1, 1>} : (!ck.tile<[64, 4], i8, "?">, !ck.tile<[64, 8], f32, "?">, !ck.tile<[64, 8], f16, "?">) -> !ck.tile<[64, 8], f16, "?">
  return
}

// -----

func.func @element(%x: vector<4xi8>, %z: vector<8xi8>) {
  // expected-error@+1 {{'ck.dequantize_fragment' bytes are i8 and elements i8 or f8E4M3FN or f8E4M3FNUZ, not i8 and f16}}
  %0 = "ck.dequantize_fragment"(%x, %z) {format = "u4", operandSegmentSizes = array<i32: 1, 1, 0>} : (vector<4xi8>, vector<8xi8>) -> vector<8xf16>
  return
}
