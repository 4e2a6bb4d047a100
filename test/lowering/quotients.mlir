// A quotient that need not be exact is a product with reciprocals, of one element too; others stay divisions.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @approximate
  // CHECK: %[[INVERSE:.*]] = rocdl.rcp %{{.*}} f32 -> f32
  // CHECK: %[[INVERSES:.*]] = vector.from_elements %[[INVERSE]] : vector<1xf32>
  // CHECK: arith.mulf %{{.*}}, %[[INVERSES]] fastmath<arcp,afn> : vector<1xf32>
  // CHECK-COUNT-2: rocdl.rcp
  // CHECK: arith.mulf {{.*}} : vector<2xf32>
  // CHECK-NOT: arith.divf
  // CHECK: llvm.return
  func.func @approximate(%one: vector<1xf32>, %a: vector<2xf32>, %b: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    %ones = arith.constant dense<1.0> : vector<1xf32>
    %inverse = arith.divf %ones, %one fastmath<arcp,afn> : vector<1xf32>
    %quotient = arith.divf %a, %b fastmath<arcp,afn> : vector<2xf32>
    return
  }

  // CHECK-LABEL: llvm.func @exact
  // CHECK-NOT: rocdl.rcp
  // CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<contract> : vector<2xf32>
  func.func @exact(%a: vector<2xf32>, %b: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    %quotient = arith.divf %a, %b fastmath<contract> : vector<2xf32>
    return
  }
}
