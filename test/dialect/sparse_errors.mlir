// What the index of a sparse operand must be, and which instructions take one.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!a = !ck.tile<[16, 16], f16, "?">
!b = !ck.tile<[16, 32], f16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
func.func @without(%a: !a, %b: !b, %c: !acc) {
  // expected-error@+1 {{'ck.mma' smfmac.f32.16x16x32.f16 needs the index of a}}
  %0 = "ck.mma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "smfmac.f32.16x16x32.f16"} : (!a, !b, !acc) -> !acc
  return
}

// -----

!b = !ck.tile<[16, 32], f16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
!index = !ck.tile<[16, 4], i8, "?">
func.func @dense(%b: !b, %c: !acc, %i: !index) {
  // expected-error@+1 {{'ck.mma' f32.16x16x16f16 takes no index}}
  %0 = "ck.mma"(%b, %b, %c, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>, instruction = "f32.16x16x16f16"} : (!b, !b, !acc, !index) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 16], f16, "?">
!b = !ck.tile<[16, 32], f16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
!index = !ck.tile<[16, 8], i8, "?">
func.func @length(%a: !a, %b: !b, %c: !acc, %i: !index) {
  // expected-error@+1 {{'ck.mma' the index of a is [16, 4], not [16, 8]}}
  %0 = "ck.mma"(%a, %b, %c, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>, instruction = "smfmac.f32.16x16x32.f16"} : (!a, !b, !acc, !index) -> !acc
  return
}

// -----

func.func @byte(%a: vector<8xi8>, %b: vector<16xi8>, %c: vector<4xi32>, %i: vector<4xi8>) {
  // expected-error@+1 {{'ck.mfma' there are no 2 bytes from 1 in vector<4xi8>}}
  %0 = "ck.mfma"(%a, %b, %c, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>, instruction = "smfmac.i32.16x16x64.i8", index_byte = 1 : i64} : (vector<8xi8>, vector<16xi8>, vector<4xi32>, vector<4xi8>) -> vector<4xi32>
  return
}
