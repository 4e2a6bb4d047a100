// Elements of four bits become fp8 by two conversions for two of them, and nothing limits them, since fp8 holds all.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx950"} {
  // CHECK-LABEL: llvm.func @to_fp8
  // CHECK-COUNT-4: rocdl.cvt.scalef32.pk.f32.fp4
  // CHECK-NOT: minnum
  // CHECK-NOT: maxnum
  // CHECK-COUNT-4: rocdl.cvt.pk.fp8.f32
  // CHECK-NOT: minnum
  // CHECK: llvm.return
  func.func @to_fp8(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "fp4"} : (vector<4xi8>) -> vector<8xf8E4M3FN>
    return
  }
}
