// ckmlir-opt runs MLIR's own passes and prints the result.

// RUN: ckmlir-opt %s --cse | filecheck %s
// RUN: ckmlir-opt %s --pass-pipeline='builtin.module(func.func(cse),canonicalize)' | filecheck %s

// CHECK-LABEL: func.func @twice
// CHECK-NEXT:    [[SUM:%.*]] = arith.addi
// CHECK-NEXT:    return [[SUM]], [[SUM]]
func.func @twice(%a: i32) -> (i32, i32) {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  return %0, %1 : i32, i32
}
