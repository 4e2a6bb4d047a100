// Rows in f32 have as many factors in f32 and keep their shape; a vector has one factor, or one for each element.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!rows = !ck.tile<[64, 32], f32, "?">
!factors = !ck.tile<[32], f32, "?">
func.func @count(%t: !rows, %f: !factors) {
  // expected-error@+1 {{'ck.rescale' 64 rows have as many factors, not [32]}}
  %0 = "ck.rescale"(%t, %f) : (!rows, !factors) -> !rows
  return
}

// -----

!rows = !ck.tile<[64, 32], f32, "?">
!factors = !ck.tile<[64], f32, "?">
func.func @shape(%t: !rows, %f: !factors) {
  // expected-error@+1 {{'ck.rescale' rows keep their shape and distribution}}
  %0 = "ck.rescale"(%t, %f) : (!rows, !factors) -> !ck.tile<[64, 16], f32, "?">
  return
}

// -----

!rows = !ck.tile<[64, 32, 2], f32, "?">
!factors = !ck.tile<[64], f32, "?">
func.func @rank(%t: !rows, %f: !factors) {
  // expected-error@+1 {{'ck.rescale' rows are those of a tile with 2 dimensions, not 3}}
  %0 = "ck.rescale"(%t, %f) : (!rows, !factors) -> !rows
  return
}

// -----

!rows = !ck.tile<[64, 32], f32, "?">
!factors = !ck.tile<[64], f16, "?">
func.func @element(%t: !rows, %f: !factors) {
  // expected-error@+1 {{'ck.rescale' factors are f32, not f16}}
  %0 = "ck.rescale"(%t, %f) : (!rows, !factors) -> !rows
  return
}

// -----

func.func @vector(%v: vector<4xf32>, %f: vector<2xf32>) {
  // expected-error@+1 {{'ck.rescale_vector' takes one factor or 4, not 2}}
  %0 = "ck.rescale_vector"(%v, %f) : (vector<4xf32>, vector<2xf32>) -> vector<4xf32>
  return
}

// -----

func.func @halves(%v: vector<4xf16>, %f: vector<1xf32>) {
  // expected-error@+1 {{'ck.rescale_vector' takes vectors of f32, not vector<4xf16>}}
  %0 = "ck.rescale_vector"(%v, %f) : (vector<4xf16>, vector<1xf32>) -> vector<4xf16>
  return
}

// -----

func.func @result(%v: vector<4xf32>, %f: vector<1xf32>) {
  // expected-error@+1 {{'ck.rescale_vector' the result has the vector's type}}
  %0 = "ck.rescale_vector"(%v, %f) : (vector<4xf32>, vector<1xf32>) -> vector<8xf32>
  return
}
