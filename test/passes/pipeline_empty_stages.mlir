// A schedule may name stages that the loop lists as empty: it is what it would be without them.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

// CHECK-LABEL: func.func @empty
// CHECK:      ^bb2(
// CHECK:      arith.muli {{.*}}ck.stage = "scale"
// CHECK-NEXT: arith.addi {{.*}}ck.stage = "add"
// CHECK-NOT:  ck.empty_stages
func.func @empty(%n: i32) -> i32 attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %end = scf.for %i = %zero to %n step %one iter_args(%sum = %zero) -> (i32) : i32 {
    %j = arith.muli %i, %i {ck.stage = "scale"} : i32
    %k = arith.addi %sum, %j {ck.stage = "add"} : i32
    scf.yield %k : i32
  } {ck.empty_stages = ["prepare", "round"], ck.schedule = "schedule s 1; ahead prepare 2; step scale, round, add; priority prepare 1"}
  return %end : i32
}
