// Bytes that came one by one, or in pairs, and are written to LDS behind a barrier are joined in front of it, and LLVM's
// scheduler keeps them there; larger elements stay behind it, and so do bytes of a kernel whose order is given piece by
// piece.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!bytes = !ck.lds<[16, 32], i8>
!halves = !ck.lds<[16, 32], f16>

module attributes {ck.target = "gfx950"} {
  // CHECK-LABEL: llvm.func @bytes
  // CHECK: vector.shuffle
  // CHECK-NEXT: rocdl.sched.barrier none
  // CHECK: rocdl.s.barrier
  // CHECK-NOT: vector.shuffle
  // CHECK: llvm.store
  func.func @bytes(%a: vector<1xi8>, %b: vector<1xi8>) attributes {ck.waves = 4 : i32, ck.lds_bytes = 512 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 0 : i64} : () -> !bytes
    "ck.wait"() {lds = 0 : i64} : () -> ()
    "ck.barrier"() : () -> ()
    %ab = vector.shuffle %a, %b [0, 1] : vector<1xi8>, vector<1xi8>
    "ck.lds_write"(%ab, %l) {distribution = "d0: 4@wave 4@lane, d1: 16@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xi8>, !bytes) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @pairs
  // CHECK: vector.from_elements
  // CHECK-NEXT: rocdl.sched.barrier none
  // CHECK: rocdl.s.barrier
  // CHECK-NOT: vector.from_elements
  // CHECK: llvm.store
  func.func @pairs(%a: vector<2xi8>, %b: vector<2xi8>) attributes {ck.waves = 4 : i32, ck.lds_bytes = 512 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 0 : i64} : () -> !bytes
    "ck.wait"() {lds = 0 : i64} : () -> ()
    "ck.barrier"() : () -> ()
    %a1 = vector.extract %a[1] : i8 from vector<2xi8>
    %b1 = vector.extract %b[1] : i8 from vector<2xi8>
    %ab = vector.from_elements %a1, %b1 : vector<2xi8>
    "ck.lds_write"(%ab, %l) {distribution = "d0: 4@wave 4@lane, d1: 16@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xi8>, !bytes) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @halves
  // CHECK-NOT: rocdl.sched.barrier
  // CHECK: rocdl.s.barrier
  // CHECK: vector.shuffle
  // CHECK: llvm.store
  func.func @halves(%a: vector<1xf16>, %b: vector<1xf16>) attributes {ck.waves = 4 : i32, ck.lds_bytes = 1024 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 0 : i64} : () -> !halves
    "ck.wait"() {lds = 0 : i64} : () -> ()
    "ck.barrier"() : () -> ()
    %ab = vector.shuffle %a, %b [0, 1] : vector<1xf16>, vector<1xf16>
    "ck.lds_write"(%ab, %l) {distribution = "d0: 4@wave 4@lane, d1: 16@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xf16>, !halves) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @in_pieces
  // CHECK: rocdl.s.barrier
  // CHECK: vector.shuffle
  // CHECK: llvm.store
  func.func @in_pieces(%a: vector<1xi8>, %b: vector<1xi8>) attributes {ck.in_pieces, ck.waves = 4 : i32, ck.lds_bytes = 512 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 0 : i64} : () -> !bytes
    "ck.wait"() {lds = 0 : i64} : () -> ()
    "ck.barrier"() : () -> ()
    %ab = vector.shuffle %a, %b [0, 1] : vector<1xi8>, vector<1xi8>
    "ck.lds_write"(%ab, %l) {distribution = "d0: 4@wave 4@lane, d1: 16@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xi8>, !bytes) -> ()
    return
  }
}
