// LDS is one array of the workgroup; lanes make the address, constants stand last where they become immediate offsets.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!lds = !ck.lds<[16, 32], f16>

// CHECK: llvm.mlir.global internal @lds_lds_access() {addr_space = 3 : i32, alignment = 1024 : i64, dso_local} : !llvm.array<2048 x i8>
// CHECK: llvm.func @lds_access
// CHECK: %[[THREAD:.*]] = rocdl.workitem.id.x range <i32, 0, 128> : i32
// CHECK: %[[LANE:.*]] = arith.andi %[[THREAD]], %{{.*}} : i32
// CHECK: %[[WAVE:.*]] = rocdl.readfirstlane %{{.*}} : i32
// CHECK: %[[BASE:.*]] = llvm.mlir.addressof @lds_lds_access : !llvm.ptr<3>
// The written vector goes to the lanes' address, 1024 bytes on.
// CHECK: %[[LANES:.*]] = llvm.getelementptr %[[BASE]][%{{.*}}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[LANES]][1024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: llvm.store %{{.*}}, %[[AT]] {alignment = 8 : i64} : vector<4xf16>, !llvm.ptr<3>
// The other half of the rows: the same lanes, 8 rows of 64 bytes further.
// CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[LANES]][1536] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: llvm.load %[[NEXT]] {alignment = 8 : i64} : !llvm.ptr<3> -> vector<4xf16>
// CHECK: llvm.return
module attributes {ck.target = "gfx942"} {
  func.func @lds_access(%x: vector<4xf16>) attributes {ck.waves = 2 : i32, ck.lds_bytes = 2048 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 16x32 order 0,1 pitch 32", offset = 1024 : i64} : () -> !lds
    "ck.lds_write"(%x, %l) {distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %y = "ck.lds_read"(%l) {distribution = "d0: 2@y0 8@lane, d1: 8@lane 4@y1", registers = array<i32: 4, 5, 6, 7>} : (!lds) -> vector<4xf16>
    return
  }
}
