// Accesses to LDS beyond what an instruction's offset reaches share one base for each 64 KB, which LLVM does not take apart.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!lds = !ck.lds<[16, 32], f16>

// CHECK-LABEL: llvm.func @far
// CHECK: %[[LANES:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK: %[[NEAR:.*]] = llvm.getelementptr %[[LANES]][64512] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: llvm.load %[[NEAR]]
// CHECK: %[[BASE:.*]] = llvm.getelementptr %[[LANES]][65536] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: %[[KEPT:.*]] = llvm.intr.strip.invariant.group %[[BASE]] : !llvm.ptr<3>
// CHECK: llvm.load %[[KEPT]]
// CHECK: %[[FAR:.*]] = llvm.getelementptr %[[KEPT]][512] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: llvm.load %[[FAR]]
// CHECK: llvm.return
module attributes {ck.target = "gfx950"} {
  func.func @far(%x: vector<4xf16>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 66560 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 64512 : i64} : () -> !lds
    %m = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 65536 : i64} : () -> !lds
    %a = "ck.lds_read"(%l) {distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %b = "ck.lds_read"(%m) {distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %c = "ck.lds_read"(%m) {distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 4, 5, 6, 7>} : (!lds) -> vector<4xf16>
    return
  }
}
