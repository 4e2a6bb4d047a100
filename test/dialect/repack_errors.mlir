// A turn of packed elements says what its types lack.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

func.func @element(%x: !ck.tile<[64, 4], f16, "?">) {
  // expected-error@+1 {{'ck.repack' takes and gives bytes (i8), not f16 and f16}}
  %0 = "ck.repack"(%x) {format = "fp4", before = 1, after = 0} : (!ck.tile<[64, 4], f16, "?">) -> !ck.tile<[32, 8], f16, "?">
  return
}

// -----

func.func @dimensions(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.repack' takes two dimensions of a tile that has 2, not 1 and 1}}
  %0 = "ck.repack"(%x) {format = "fp4", before = 1, after = 1} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 4], i8, "?">
  return
}

// -----

func.func @lengths(%x: !ck.tile<[64, 4], i8, "?">) {
  // expected-error@+1 {{'ck.repack' elements of [64, 4] bytes along d1 take [32, 8] along d0, not [64, 8]}}
  %0 = "ck.repack"(%x) {format = "fp4", before = 1, after = 0} : (!ck.tile<[64, 4], i8, "?">) -> !ck.tile<[64, 8], i8, "?">
  return
}

// -----

func.func @part(%x: !ck.tile<[6, 6], i8, "?">) {
  // expected-error@+1 {{'ck.repack' 6 elements of 6 bits do not fill bytes; expected a multiple of 4}}
  %0 = "ck.repack"(%x) {format = "fp6", before = 0, after = 1} : (!ck.tile<[6, 6], i8, "?">) -> !ck.tile<[48, 4], i8, "?">
  return
}

// -----

func.func @threads(%x: !ck.tile<[1, 128], i8, "d0: 1, d1: 64@lane 2@y0">) {
  // expected-error@+1 {{'ck.repack' elements that lie as 'd0: 1, d1: 64@lane 2@y0' would leave their threads to lie as 'd0: 2@lane, d1: 32@lane 2@y0'}}
  %0 = "ck.repack"(%x) {format = "i4", before = 0, after = 1} : (!ck.tile<[1, 128], i8, "d0: 1, d1: 64@lane 2@y0">) -> !ck.tile<[2, 64], i8, "d0: 2@lane, d1: 32@lane 2@y0">
  return
}

// -----

func.func @block(%x: vector<6xi8>) {
  // expected-error@+1 {{'ck.repack_fragment' 6 bytes are not whole blocks of 12}}
  %0 = "ck.repack_fragment"(%x) {format = "bf6"} : (vector<6xi8>) -> vector<6xi8>
  return
}
