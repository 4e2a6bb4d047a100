// ckmlir-opt compares diagnostics with the comments that announce them, piece by piece.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A piece without errors is printed.
// CHECK: func.func @valid
func.func @valid() {
  return
}

// -----

func.func @wrong_result() -> i32 {
  // expected-error@+2 {{'func.return' op has 0 operands}}
  // expected-note@+1 {{see current operation}}
  return
}

// -----

// expected-error-re@+1 {{Dialect `nothing' not found}}
nothing.here
