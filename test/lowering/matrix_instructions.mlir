// Matrix instructions with operands of their own kind: f64 takes single numbers and negates instead of permuting, f8f6f4
// says the formats and scales by nothing (LLVM takes scales of 0 for the instruction that has none).

// RUN: ckmlir-opt %s --ck-lower-fragments --verify-each | filecheck %s

module attributes {ck.target = "gfx950"} {
  // CHECK-LABEL: llvm.func @double
  // CHECK: %[[A:.*]] = llvm.bitcast %{{.*}} : vector<1xf64> to f64
  // CHECK: rocdl.mfma.f64.16x16x4f64 %[[A]], %{{.*}}, %{{.*}}, 0, 0, none : (f64, f64, vector<4xf64>) -> vector<4xf64>
  func.func @double(%a: vector<1xf64>, %c: vector<4xf64>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f64.16x16x4f64"} : (vector<1xf64>, vector<1xf64>, vector<4xf64>) -> vector<4xf64>
    return
  }

  // CHECK-LABEL: llvm.func @full_rate
  // CHECK: %[[NONE:.*]] = arith.constant 0 : i32
  // CHECK: rocdl.mfma.scale.f32.16x16x128.f8f6f4 %{{.*}}, %{{.*}}, %{{.*}}, fp8_e4m3, fp8_e5m2, 0, %[[NONE]], 0, %[[NONE]] : (vector<8xi32>, vector<8xi32>, vector<4xf32>, i32, i32) -> vector<4xf32>
  func.func @full_rate(%a: vector<8xi32>, %b: vector<8xi32>, %c: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.mfma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.bf8"} : (vector<8xi32>, vector<8xi32>, vector<4xf32>) -> vector<4xf32>
    return
  }
  // Scales are a register of up to four, of which the instruction chooses one.
  // CHECK-LABEL: llvm.func @scaled
  // CHECK: %[[FOUR:.*]] = llvm.bitcast %{{.*}} : vector<4xi8> to i32
  // CHECK: %[[TWO:.*]] = llvm.bitcast %{{.*}} : vector<2xi8> to i16
  // CHECK: %[[WIDE:.*]] = arith.extui %[[TWO]] : i16 to i32
  // CHECK: rocdl.mfma.scale.f32.16x16x128.f8f6f4 %{{.*}}, %{{.*}}, %{{.*}}, fp8_e4m3, fp8_e5m2, 3, %[[FOUR]], 1, %[[WIDE]] : (vector<8xi32>
  func.func @scaled(%a: vector<8xi32>, %b: vector<8xi32>, %c: vector<4xf32>, %s: vector<4xi8>, %t: vector<2xi8>) attributes {ck.waves = 1 : i32} {
    %four = arith.bitcast %s : vector<4xi8> to vector<4xf8E8M0FNU>
    %two = arith.bitcast %t : vector<2xi8> to vector<2xf8E8M0FNU>
    %0 = "ck.mfma"(%a, %b, %c, %four, %two) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, instruction = "f32.16x16x128.f8f6f4.fp8.bf8", scale_bytes = array<i32: 3, 1>} : (vector<8xi32>, vector<8xi32>, vector<4xf32>, vector<4xf8E8M0FNU>, vector<2xf8E8M0FNU>) -> vector<4xf32>
    return
  }
}
