// What a branch gives, and what a loop with a condition carries, lies the same under all its names.

// RUN: ckmlir-opt %s --ck-infer-distributions | filecheck %s

!known = !ck.tile<[64], f32, "d0: 64@lane">
!unknown = !ck.tile<[64], f32, "?">

// From one arm to the result and to the other arm.
// CHECK-LABEL: func.func @branch
func.func @branch(%x: f32, %c: i1) attributes {ck.waves = 1 : i32} {
  // CHECK: scf.if %{{.*}} -> (!ck.tile<[64], f32, "d0: 64@lane">)
  %0 = scf.if %c -> (!unknown) {
    %1 = "ck.splat"(%x) : (f32) -> !known
    %2 = "ck.map"() ({
      %a = "ck.element"(%1) : (!known) -> f32
      "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) : () -> !unknown
    scf.yield %2 : !unknown
  } else {
    // CHECK: } else {
    // CHECK-NEXT: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[64], f32, "d0: 64@lane">
    %1 = "ck.splat"(%x) : (f32) -> !unknown
    scf.yield %1 : !unknown
  }
  return
}

// Through a loop: what starts it, both blocks' arguments, what goes round, and the result.
// CHECK-LABEL: func.func @while
func.func @while(%x: f32, %c: i1) attributes {ck.waves = 1 : i32} {
  // CHECK: %[[START:.*]] = "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[64], f32, "d0: 64@lane">
  %0 = "ck.splat"(%x) : (f32) -> !unknown
  // CHECK: scf.while (%{{.*}} = %[[START]]) : (!ck.tile<[64], f32, "d0: 64@lane">) -> !ck.tile<[64], f32, "d0: 64@lane">
  %1 = scf.while (%t = %0) : (!unknown) -> !unknown {
    scf.condition(%c) %t : !unknown
  } do {
  // CHECK: ^bb0(%{{.*}}: !ck.tile<[64], f32, "d0: 64@lane">):
  ^bb0(%u: !unknown):
    %2 = "ck.splat"(%x) : (f32) -> !known
    %3 = "ck.map"() ({
      %a = "ck.element"(%u) : (!unknown) -> f32
      %b = "ck.element"(%2) : (!known) -> f32
      %s = arith.addf %a, %b : f32
      "ck.yield"(%s) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) : () -> !unknown
    scf.yield %3 : !unknown
  }
  return
}
