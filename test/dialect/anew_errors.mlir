// Only scalars are taken anew, and stay what they are.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

func.func @condition(%c: i1) {
  // expected-error@+1 {{'ck.anew' is of scalars (i32, i64, f32), not of i1}}
  %0 = "ck.anew"(%c) : (i1) -> i1
  return
}

// -----

func.func @other(%n: i32) {
  // expected-error@+1 {{'ck.anew' the same scalar is i32, not i64}}
  %0 = "ck.anew"(%n) : (i32) -> i64
  return
}
