// Vectors of bytes go over branches, come from LDS and are cut as dwords; what is cut within a dword stays as it is.
// One byte or two go over branches as a number.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!lds = !ck.lds<[16, 64], i8>

// CHECK-LABEL: llvm.func @carried
// CHECK: %[[LOADED:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK: %[[BYTES:.*]] = llvm.bitcast %[[LOADED]] : vector<4xi32> to vector<16xi8>
// CHECK: %[[HANDED:.*]] = llvm.bitcast %[[BYTES]] : vector<16xi8> to vector<4xi32>
// CHECK: cf.br ^[[LOOP:bb[0-9]+]](%[[HANDED]], %{{.*}} : vector<4xi32>, vector<2xf16>)
// CHECK: ^[[LOOP]](%[[IN:.*]]: vector<4xi32>, %{{.*}}: vector<2xf16>):
// CHECK: %[[WHOLE:.*]] = llvm.bitcast %[[IN]] : vector<4xi32> to vector<16xi8>
// CHECK: %[[AGAIN:.*]] = llvm.bitcast %[[WHOLE]] : vector<16xi8> to vector<4xi32>
// CHECK: %[[HALF:.*]] = vector.extract_strided_slice %[[AGAIN]] {offsets = [2], sizes = [2], strides = [1]} : vector<4xi32> to vector<2xi32>
// CHECK: %[[CUT:.*]] = llvm.bitcast %[[HALF]] : vector<2xi32> to vector<8xi8>
// CHECK: llvm.store %[[CUT]]
// CHECK: vector.extract_strided_slice %[[WHOLE]] {offsets = [2], sizes = [4], strides = [1]} : vector<16xi8> to vector<4xi8>
module attributes {ck.target = "gfx942"} {
  func.func @carried(%some: i1, %x: vector<2xf16>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !lds
    %y = "ck.lds_read"(%l) {distribution = "d0: 16@lane, d1: 4@lane 16@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>} : (!lds) -> vector<16xi8>
    cf.br ^loop(%y, %x : vector<16xi8>, vector<2xf16>)
  ^loop(%z: vector<16xi8>, %h: vector<2xf16>):
    %half = vector.extract_strided_slice %z {offsets = [8], sizes = [8], strides = [1]} : vector<16xi8> to vector<8xi8>
    "ck.lds_write"(%half, %l) {distribution = "d0: 16@lane, d1: 4@lane 16@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xi8>, !lds) -> ()
    %odd = vector.extract_strided_slice %z {offsets = [2], sizes = [4], strides = [1]} : vector<16xi8> to vector<4xi8>
    "ck.lds_write"(%odd, %l) {distribution = "d0: 16@lane, d1: 4@lane 16@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xi8>, !lds) -> ()
    cf.cond_br %some, ^loop(%z, %h : vector<16xi8>, vector<2xf16>), ^end
  ^end:
    return
  }
  // CHECK-LABEL: llvm.func @few
  // CHECK: %[[ONE:.*]] = arith.extui %{{.*}} : i8 to i32
  // CHECK: %[[TWO:.*]] = arith.extui %{{.*}} : i16 to i32
  // CHECK: cf.br ^[[LOOP:bb[0-9]+]](%[[ONE]], %[[TWO]] : i32, i32)
  // CHECK: ^[[LOOP]](%[[A:.*]]: i32, %[[B:.*]]: i32):
  // CHECK-DAG: arith.trunci %[[A]] : i32 to i8
  // CHECK-DAG: %[[PAIR:.*]] = arith.trunci %[[B]] : i32 to i16
  // CHECK-DAG: llvm.bitcast %[[PAIR]] : i16 to vector<2xi8>
  // CHECK: cf.cond_br %{{.*}}, ^[[LOOP]](%{{.*}}, %{{.*}} : i32, i32)
  func.func @few(%some: i1, %x: vector<1xi8>, %y: vector<2xi8>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !lds
    cf.br ^loop(%x, %y : vector<1xi8>, vector<2xi8>)
  ^loop(%a: vector<1xi8>, %b: vector<2xi8>):
    "ck.lds_write"(%b, %l) {distribution = "d0: 16@lane, d1: 4@lane 16@y0", registers = array<i32: 0, 1>} : (vector<2xi8>, !lds) -> ()
    cf.cond_br %some, ^loop(%a, %b : vector<1xi8>, vector<2xi8>), ^end
  ^end:
    return
  }
}
