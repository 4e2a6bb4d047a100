// What is read from a tensor is still used when reads from another are done, so that their registers differ; reads
// without a mark are left alone.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!lds = !ck.lds<[16, 32], f16>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @apart
  // CHECK: %[[V:.*]] = llvm.load
  // CHECK: %[[K0:.*]] = llvm.load
  // CHECK-NOT: llvm.inline_asm
  // CHECK: llvm.load
  // CHECK: llvm.inline_asm has_side_effects "", "v" %{{.*}} : (vector<2xi32>) -> ()
  // CHECK-NOT: llvm.inline_asm
  // CHECK: llvm.return
  func.func @apart() attributes {ck.waves = 2 : i32, ck.lds_bytes = 2048 : i64} {
    %v = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 0 : i64} : () -> !lds
    %k = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 1024 : i64} : () -> !lds
    %a = "ck.lds_read"(%v) {ck.apart = "v", distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %b = "ck.lds_read"(%k) {ck.apart = "k", distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %c = "ck.lds_read"(%k) {ck.apart = "k", distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 4, 5, 6, 7>} : (!lds) -> vector<4xf16>
    return
  }

  // CHECK-LABEL: llvm.func @together
  // CHECK-NOT: llvm.inline_asm
  // CHECK: llvm.return
  func.func @together() attributes {ck.waves = 2 : i32, ck.lds_bytes = 2048 : i64} {
    %v = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 0 : i64} : () -> !lds
    %k = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 1024 : i64} : () -> !lds
    %a = "ck.lds_read"(%v) {ck.apart = "v", distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %b = "ck.lds_read"(%k) {distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    return
  }
}
