// Each kernel of a module has its own array for its LDS, of its own size.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK: llvm.mlir.global internal @lds_first() {{.*}} !llvm.array<512 x i8>
  // CHECK: llvm.func @first
  // CHECK: llvm.mlir.addressof @lds_first
  func.func @first(%x: vector<4xf16>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 512 : i64} {
    %a = "ck.lds_alloc"() {layout = "lengths 64x4 order 0,1 pitch 4", name = "a", offset = 0 : i64} : () -> !ck.lds<[64, 4], f16>
    "ck.lds_write"(%x, %a) {distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !ck.lds<[64, 4], f16>) -> ()
    return
  }
  // CHECK: llvm.mlir.global internal @lds_second() {{.*}} !llvm.array<1024 x i8>
  // CHECK: llvm.func @second
  // CHECK: llvm.mlir.addressof @lds_second
  func.func @second(%x: vector<8xf16>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
    %a = "ck.lds_alloc"() {layout = "lengths 64x8 order 0,1 pitch 8", name = "a", offset = 0 : i64} : () -> !ck.lds<[64, 8], f16>
    "ck.lds_write"(%x, %a) {distribution = "d0: 64@lane, d1: 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xf16>, !ck.lds<[64, 8], f16>) -> ()
    return
  }
}
