// In a loop whose schedule takes arithmetic to pieces, tiles are split to vectors of so many registers.

// RUN: sed 's/SCHEDULE/schedule s 1; elements 2/' %s | ckmlir-opt --ck-split-tiles | filecheck %s --check-prefixes CHECK,PIECES
// RUN: sed 's/SCHEDULE/schedule s 1/' %s | ckmlir-opt --ck-split-tiles | filecheck %s --check-prefixes CHECK,WHOLE

// Columns are sums of the lane's own part and constants, piece by piece; the splat that they are compared with, the choice,
// the conversion and the sum over a row, a chain of pieces, likewise.
// CHECK-LABEL: func.func @row
// CHECK: scf.for
// WHOLE: arith.addi {{.*}} overflow<nsw> {{.*}} : vector<8xi32>
// WHOLE: arith.cmpi slt, {{.*}} : vector<8xi32>
// WHOLE: arith.select {{.*}} vector<8xf32>
// WHOLE: "ck.convert"({{.*}}) {bounded, {{.*}} : (vector<8xf32>)
// WHOLE: arith.addf {{.*}} : vector<4xf32>
// PIECES-COUNT-4: arith.addi {{.*}} overflow<nsw> {{.*}} : vector<2xi32>
// PIECES-COUNT-4: arith.cmpi slt, {{.*}} : vector<2xi32>
// PIECES-COUNT-4: "ck.convert"({{.*}}) {bounded, {{.*}} : (vector<2xf32>)
// PIECES-COUNT-3: arith.addf {{.*}} : vector<2xf32>
// CHECK: return
!wide = !ck.tile<[64, 8], f32, "d0: 64@lane, d1: 8@y0">
!half = !ck.tile<[64, 8], bf16, "d0: 64@lane, d1: 8@y0">
!columns = !ck.tile<[64, 8], i32, "d0: 64@lane, d1: 8@y0">
func.func @row(%n: i32, %x: f32, %low: f32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %t = "ck.splat"(%x) {ck.stage = "s"} : (f32) -> !wide
    %c = "ck.coordinates"() {axis = 1 : i64, ck.stage = "s"} : () -> !columns
    %m = "ck.map"() ({
      %e = "ck.element"(%t) : (!wide) -> f32
      %k = "ck.element"(%c) : (!columns) -> i32
      %inside = arith.cmpi slt, %k, %i : i32
      %chosen = arith.select %inside, %e, %low : f32
      "ck.yield"(%chosen) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) {ck.stage = "s"} : () -> !wide
    %h = "ck.cast"(%m) {bounded, ck.stage = "s"} : (!wide) -> !half
    %s = "ck.reduce"(%m) ({
    ^bb0(%a: f32, %b: f32):
      %sum = arith.addf %a, %b : f32
      "ck.yield"(%sum) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
    }) {axis = 1 : i64, ck.stage = "s", operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
      : (!wide) -> !ck.tile<[64], f32, "d0: 64@lane">
  } {ck.schedule = "SCHEDULE"}
  return
}
