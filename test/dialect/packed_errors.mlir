// Conversions of packed elements say what their types lack.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

func.func @format(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.unpack' 'fp5' is not a packed format; they are fp4, fp6, bf6, i4, u4}}
  %0 = "ck.unpack"(%x) {format = "fp5"} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 8], f32, "?">
  return
}

// -----

func.func @lengths(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.unpack' [64, 4] bytes hold [64, 8], not [64, 4]}}
  %0 = "ck.unpack"(%x) {format = "fp4"} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 4], f32, "?">
  return
}

// -----

func.func @part(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.unpack' 4 bytes hold elements of 6 bits in part; expected 3s}}
  %0 = "ck.unpack"(%x) {format = "fp6"} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 8], f32, "?">
  return
}

// -----

func.func @element(%x: !ck.tile<[64, 8], f16, "?">) {
  // expected-error@+1 {{'ck.pack' bytes are i8 and elements f32, not i8 and f16}}
  %0 = "ck.pack"(%x) {format = "fp4"} : (!ck.tile<[64, 8], f16, "?">) -> !ck.tile<[64, 4], i8, "?">
  return
}

// -----

func.func @octets(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.unpack' bytes are i8 and elements f32 or f16 or f8E4M3FN or f8E4M3FNUZ, not i8 and i8}}
  %0 = "ck.unpack"(%x) {format = "fp4"} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 8], i8, "?">
  return
}

// -----

func.func @apart(%x: !ck.tile<[64, 8], f32, "d0: 8@y0 8@lane, d1: 8@lane">) {
  // expected-error@+1 {{'ck.pack' the elements lie as 'd0: 8@y0 8@lane, d1: 4@lane 2@y1', not 'd0: 8@y0 8@lane, d1: 8@lane'}}
  %0 = "ck.pack"(%x) {format = "fp4"} : (!ck.tile<[64, 8], f32, "d0: 8@y0 8@lane, d1: 8@lane">) -> !ck.tile<[64, 4], i8, "d0: 8@y0 8@lane, d1: 4@lane">
  return
}

// -----

func.func @vectors(%x: vector<4xi8>) {
  // expected-error@+1 {{'ck.unpack_fragment' 4 bytes hold 8 elements, not 4}}
  %0 = "ck.unpack_fragment"(%x) {format = "fp4"} : (vector<4xi8>) -> vector<4xf32>
  return
}

// -----

func.func @scalars(%x: vector<8xf16>) {
  // expected-error@+1 {{'ck.pack_fragment' takes vectors of i8 and of f32, not vector<4xi8> and vector<8xf16>}}
  %0 = "ck.pack_fragment"(%x) {format = "fp4"} : (vector<8xf16>) -> vector<4xi8>
  return
}

// -----

func.func @wide(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.unpack' bytes are i8 and elements f32 or f16 or f8E4M3FN or f8E4M3FNUZ, not i8 and bf16}}
  %0 = "ck.unpack"(%x) {format = "fp4"} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 8], bf16, "?">
  return
}

// -----

func.func @powers(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.unpack' elements become i8 times 2^0 or 2^4, not times 2^3}}
  %0 = "ck.unpack"(%x) {format = "i4", exponent = 3} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 8], i8, "?">
  return
}

// -----

func.func @powers_of_vectors(%x: vector<4xi8>) {
  // expected-error@+1 {{'ck.unpack_fragment' elements become f16 times 2^0, not times 2^4}}
  %0 = "ck.unpack_fragment"(%x) {format = "i4", exponent = 4} : (vector<4xi8>) -> vector<8xf16>
  return
}
