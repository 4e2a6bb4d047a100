// Vectors of bytes of which one stands behind the other are joined as dwords; other shuffles stay as they are.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

// CHECK-LABEL: llvm.func @joined
// CHECK: %[[BOTH:.*]] = vector.shuffle %[[LOW:.*]], %[[HIGH:.*]] [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xi32>, vector<4xi32>
// CHECK: llvm.bitcast %[[BOTH]] : vector<8xi32> to vector<32xi8>
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [16, 0] : vector<16xi8>, vector<16xi8>
module attributes {ck.target = "gfx942"} {
  func.func @joined(%x: vector<16xi8>, %y: vector<16xi8>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 4096 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !ck.lds<[16, 64], i8>
    %both = vector.shuffle %x, %y [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31] : vector<16xi8>, vector<16xi8>
    %crossed = vector.shuffle %x, %y [16, 0] : vector<16xi8>, vector<16xi8>
    %part = vector.extract_strided_slice %both {offsets = [8], sizes = [16], strides = [1]} : vector<32xi8> to vector<16xi8>
    "ck.lds_write"(%part, %l) {distribution = "d0: 16@lane, d1: 4@lane 16@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>} : (vector<16xi8>, !ck.lds<[16, 64], i8>) -> ()
    "ck.lds_write"(%crossed, %l) {distribution = "d0: 16@lane, d1: 4@lane 16@y0", registers = array<i32: 0, 1>} : (vector<2xi8>, !ck.lds<[16, 64], i8>) -> ()
    return
  }

  // Two parts that repeat one byte are a longer vector that repeats it: no words, of whose bytes each would be converted.
  // CHECK-LABEL: llvm.func @repeated
  // CHECK-NOT: vector.shuffle
  // CHECK-COUNT-1: v_cvt_f32_i32_sdwa
  // CHECK-NOT: v_cvt_f32_i32_sdwa
  // CHECK-NOT: arith.sitofp
  // CHECK: llvm.return
  func.func @repeated(%x: i8) attributes {ck.waves = 1 : i32} {
    %some = vector.broadcast %x : i8 to vector<4xi8>
    %more = vector.shuffle %some, %some [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xi8>, vector<4xi8>
    %0 = "ck.convert"(%more) : (vector<8xi8>) -> vector<8xf32>
    return
  }
}
