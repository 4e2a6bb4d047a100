// Rows of a floating-point type have as many bounds in i32 and keep their shape, and what elements become is of their
// type; a vector has one bound, or one for each element, and a column for each.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!rows = !ck.tile<[64, 32], f32, "?">
!bounds = !ck.tile<[32], i32, "?">
func.func @count(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' 64 rows have as many bounds, not [32]}}
  %0 = "ck.cut"(%t, %b) {other = 0.0 : f32} : (!rows, !bounds) -> !rows
  return
}

// -----

!rows = !ck.tile<[64, 32], f32, "?">
!bounds = !ck.tile<[64], i32, "?">
func.func @shape(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' rows keep their shape and distribution}}
  %0 = "ck.cut"(%t, %b) {other = 0.0 : f32} : (!rows, !bounds) -> !ck.tile<[64, 16], f32, "?">
  return
}

// -----

!rows = !ck.tile<[64, 32, 2], f32, "?">
!bounds = !ck.tile<[64], i32, "?">
func.func @rank(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' rows are those of a tile with 2 dimensions, not 3}}
  %0 = "ck.cut"(%t, %b) {other = 0.0 : f32} : (!rows, !bounds) -> !rows
  return
}

// -----

!rows = !ck.tile<[64, 32], f32, "?">
!bounds = !ck.tile<[64], f32, "?">
func.func @element(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' bounds are i32, not f32}}
  %0 = "ck.cut"(%t, %b) {other = 0.0 : f32} : (!rows, !bounds) -> !rows
  return
}

// -----

!rows = !ck.tile<[64, 32], i32, "?">
!bounds = !ck.tile<[64], i32, "?">
func.func @integers(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' rows are of a floating-point type, not i32}}
  %0 = "ck.cut"(%t, %b) {other = 0 : i32} : (!rows, !bounds) -> !rows
  return
}

// -----

!rows = !ck.tile<[64, 32], f16, "?">
!bounds = !ck.tile<[64], i32, "?">
func.func @elements(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' rows of f16 do not become f32}}
  %0 = "ck.cut"(%t, %b) {other = 0.0 : f16} : (!rows, !bounds) -> !ck.tile<[64, 32], f32, "?">
  return
}

// -----

!rows = !ck.tile<[64, 32], f16, "?">
!bounds = !ck.tile<[64], i32, "?">
func.func @other_type(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' needs the attribute 'other', a number in f16}}
  %0 = "ck.cut"(%t, %b) {other = 0.0 : f32} : (!rows, !bounds) -> !rows
  return
}

// -----

!rows = !ck.tile<[64, 32], f32, "?">
!bounds = !ck.tile<[64], i32, "?">
func.func @other(%t: !rows, %b: !bounds) {
  // expected-error@+1 {{'ck.cut' needs the attribute 'other', a number in f32}}
  %0 = "ck.cut"(%t, %b) {other = 0 : i32} : (!rows, !bounds) -> !rows
  return
}

// -----

func.func @vector(%v: vector<4xf32>, %b: vector<2xi32>, %lane: i32) {
  // expected-error@+1 {{'ck.cut_vector' takes one bound or 4, not 2}}
  %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1, 2, 3>, other = 0.0 : f32}
    : (vector<4xf32>, vector<2xi32>, i32) -> vector<4xf32>
  return
}

// -----

func.func @vector_columns(%v: vector<4xf32>, %b: vector<1xi32>, %lane: i32) {
  // expected-error@+1 {{'ck.cut_vector' has a column for each of 4 elements, not 2}}
  %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1>, other = 0.0 : f32}
    : (vector<4xf32>, vector<1xi32>, i32) -> vector<4xf32>
  return
}

// -----

func.func @vector_element(%v: vector<4xi16>, %b: vector<1xi32>, %lane: i32) {
  // expected-error@+1 {{'ck.cut_vector' takes a vector of a floating-point type, not vector<4xi16>}}
  %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1, 2, 3>, other = 0.0 : f32}
    : (vector<4xi16>, vector<1xi32>, i32) -> vector<4xi16>
  return
}

// -----

func.func @lane(%v: vector<4xf32>, %b: vector<1xi32>, %lane: i64) {
  // expected-error@+1 {{'ck.cut_vector' takes the lane's column as i32, not i64}}
  %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1, 2, 3>, other = 0.0 : f32}
    : (vector<4xf32>, vector<1xi32>, i64) -> vector<4xf32>
  return
}

// -----

func.func @vector_other(%v: vector<4xf32>, %b: vector<1xi32>, %lane: i32) {
  // expected-error@+1 {{'ck.cut_vector' needs the attribute 'other', a number in f32}}
  %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1, 2, 3>}
    : (vector<4xf32>, vector<1xi32>, i32) -> vector<4xf32>
  return
}
