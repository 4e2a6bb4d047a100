// Each matrix instruction is given the register that holds its operands' scales, four where there are as many, and which
// of them is its own; with operands swapped, so are the scales.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!a = !ck.tile<[32, 256], f8E4M3FN, "d0: 2@y0 16@lane.1, d1: 2@y1 2@y2 4@lane.0 16@y3">
!b = !ck.tile<[16, 256], f8E5M2, "d0: 16@lane.1, d1: 2@y0 2@y1 4@lane.0 16@y2">
!acc = !ck.tile<[32, 16], f32, "d0: 2@y0 16@lane.1, d1: 4@lane.0 4@y1">
!sa = !ck.tile<[32, 8], f8E8M0FNU, "d0: 2@y0 16@lane.1, d1: 2@y1 4@lane.0">
!sb = !ck.tile<[16, 8], f8E8M0FNU, "d0: 16@lane.1, d1: 2@y0 4@lane.0">

// CHECK: "ck.mfma"(%{{.*}}, %{{.*}}, %{{.*}}, %[[SB:.*]], %[[SA:.*]]) {instruction = "f32.16x16x128.f8f6f4.bf8.fp8", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, scale_bytes = array<i32: 0, 0>} : (vector<32xf8E5M2>, vector<32xf8E4M3FN>, vector<4xf32>, vector<2xf8E8M0FNU>, vector<4xf8E8M0FNU>)
// CHECK: "ck.mfma"({{.*}}, %[[SB]], %[[SA]]){{.*}}scale_bytes = array<i32: 0, 2>
// CHECK: "ck.mfma"({{.*}}, %[[SB]], %[[SA]]){{.*}}scale_bytes = array<i32: 1, 1>
// CHECK: "ck.mfma"({{.*}}, %[[SB]], %[[SA]]){{.*}}scale_bytes = array<i32: 1, 3>

module attributes {ck.target = "gfx950"} {
  func.func @scaled(%x: f8E4M3FN, %y: f8E5M2, %z: f32, %s: f8E8M0FNU) attributes {ck.waves = 1 : i32} {
    %a = "ck.splat"(%x) : (f8E4M3FN) -> !a
    %b = "ck.splat"(%y) : (f8E5M2) -> !b
    %c = "ck.splat"(%z) : (f32) -> !acc
    %sa = "ck.splat"(%s) : (f8E8M0FNU) -> !sa
    %sb = "ck.splat"(%s) : (f8E8M0FNU) -> !sb
    %d = "ck.mma"(%a, %b, %c, %sa, %sb) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x128.f8f6f4.bf8.fp8 k_pack=1 transposed"}
      : (!a, !b, !acc, !sa, !sb) -> !acc
    return
  }
}
