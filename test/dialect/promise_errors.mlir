// Promises that say nothing, or are made of what is not an integer, are refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

func.func @divisor(%n: i32) {
  // expected-error@+1 {{'ck.promise' divisor = 0; a number is a multiple of 1 or more}}
  %0 = "ck.promise"(%n) {divisor = 0} : (i32) -> i32
  return
}

// -----

func.func @missing(%n: i32) {
  // expected-error@+1 {{'ck.promise' needs the attribute 'divisor', an integer}}
  %0 = "ck.promise"(%n) : (i32) -> i32
  return
}

// -----

func.func @float(%x: f32) {
  // expected-error@+1 {{'ck.promise' promises are made of i32, i64 and pointers, not of f32}}
  %0 = "ck.promise"(%x) {divisor = 4} : (f32) -> f32
  return
}

// -----

func.func @other(%n: i32) {
  // expected-error@+1 {{'ck.promise' what is promised of i32 is i32, not i64}}
  %0 = "ck.promise"(%n) {divisor = 4} : (i32) -> i64
  return
}
