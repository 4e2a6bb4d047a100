// What operands with block scales of a product must be, and which instructions have them.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!a = !ck.tile<[16, 128], f8E4M3FN, "?">
!acc = !ck.tile<[16, 16], f32, "?">
!s = !ck.tile<[16, 4], f8E8M0FNU, "?">
func.func @one_alone(%a: !a, %c: !acc, %s: !s) {
  // expected-error@+1 {{'ck.mma' scales are of both operands, or of none}}
  %0 = "ck.mma"(%a, %a, %c, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.fp8"} : (!a, !a, !acc, !s) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 128], f16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
!s = !ck.tile<[16, 4], f8E8M0FNU, "?">
func.func @without(%a: !a, %c: !acc, %s: !s) {
  // expected-error@+1 {{'ck.mma' f32.16x16x16f16 has no block scales}}
  %0 = "ck.mma"(%a, %a, %c, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x16f16"} : (!a, !a, !acc, !s, !s) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 128], f8E4M3FN, "?">
!acc = !ck.tile<[16, 16], f32, "?">
!s = !ck.tile<[16, 4], i8, "?">
func.func @type(%a: !a, %c: !acc, %s: !s) {
  // expected-error@+1 {{'ck.mma' the scales of a are e8m0, not i8}}
  %0 = "ck.mma"(%a, %a, %c, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.fp8"} : (!a, !a, !acc, !s, !s) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 128], f8E4M3FN, "?">
!acc = !ck.tile<[16, 16], f32, "?">
!s = !ck.tile<[16, 4], f8E8M0FNU, "?">
!t = !ck.tile<[16, 8], f8E8M0FNU, "?">
func.func @lengths(%a: !a, %c: !acc, %s: !s, %t: !t) {
  // expected-error@+1 {{'ck.mma' the scales of b are [16, 4], not [16, 8]}}
  %0 = "ck.mma"(%a, %a, %c, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.fp8"} : (!a, !a, !acc, !s, !t) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 128], f8E4M3FN, "d0: 16@lane.1, d1: 2@y0 4@lane.0 16@y1">
!acc = !ck.tile<[16, 16], f32, "d0: 4@lane.0 4@y0, d1: 16@lane.1">
!s = !ck.tile<[16, 4], f8E8M0FNU, "d0: 16@lane.0, d1: 4@lane.1">
func.func @distribution(%a: !a, %c: !acc, %s: !s) {
  // expected-error@+1 {{'ck.mma' lanes do not hold the scales of A (d0: 16@lane.1, d1: 2@y0 4@lane.0 16@y1) that the instruction takes from them (d0: 16@lane, d1: 4@lane)}}
  %0 = "ck.mma"(%a, %a, %c, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.fp8"} : (!a, !a, !acc, !s, !s) -> !acc
  return
}

// -----

func.func @fragment_alone(%a: vector<32xi8>, %c: vector<4xf32>, %s: vector<4xf8E8M0FNU>) {
  // expected-error@+1 {{'ck.mfma' scales are of both operands, or of none}}
  %0 = "ck.mfma"(%a, %a, %c, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.fp8", scale_bytes = array<i32: 0>} : (vector<32xi8>, vector<32xi8>, vector<4xf32>, vector<4xf8E8M0FNU>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_without(%a: vector<4xf16>, %c: vector<4xf32>, %s: vector<4xf8E8M0FNU>) {
  // expected-error@+1 {{'ck.mfma' f32.16x16x16f16 has no block scales}}
  %0 = "ck.mfma"(%a, %a, %c, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x16f16", scale_bytes = array<i32: 0, 0>} : (vector<4xf16>, vector<4xf16>, vector<4xf32>, vector<4xf8E8M0FNU>, vector<4xf8E8M0FNU>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_type(%a: vector<32xi8>, %c: vector<4xf32>, %s: vector<3xf8E8M0FNU>) {
  // expected-error@+1 {{'ck.mfma' block scales are 1, 2 or 4 e8m0, not vector<3xf8E8M0FNU>}}
  %0 = "ck.mfma"(%a, %a, %c, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.fp8", scale_bytes = array<i32: 0, 0>} : (vector<32xi8>, vector<32xi8>, vector<4xf32>, vector<3xf8E8M0FNU>, vector<3xf8E8M0FNU>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_place(%a: vector<32xi8>, %c: vector<4xf32>, %s: vector<2xf8E8M0FNU>) {
  // expected-error@+1 {{'ck.mfma' there is no scale 2 in vector<2xf8E8M0FNU>}}
  %0 = "ck.mfma"(%a, %a, %c, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.fp8", scale_bytes = array<i32: 0, 2>} : (vector<32xi8>, vector<32xi8>, vector<4xf32>, vector<2xf8E8M0FNU>, vector<2xf8E8M0FNU>) -> vector<4xf32>
  return
}
