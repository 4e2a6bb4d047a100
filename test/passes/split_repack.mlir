// Packed elements that share bytes across the rows that readers want are turned within threads: a lane has as many
// neighbours along both dimensions as share bytes, and there is a turn for each run of bytes.

// RUN: ckmlir-opt %s --ck-infer-distributions | filecheck %s --check-prefix INFERRED
// RUN: ckmlir-opt %s --ck-infer-distributions --ck-split-tiles | filecheck %s

!across = !ck.tile<[4, 128], i8, "d0: 4@y1, d1: 64@lane 2@y0">

module attributes {ck.target = "gfx90a"} {
  // INFERRED: "ck.repack"{{.*}} -> !ck.tile<[8, 64], i8, "d0: 8@y0, d1: 64@lane">
  // CHECK: "ck.repack_fragment"{{.*}} {format = "fp4"} : (vector<8xi8>) -> vector<8xi8>
  // CHECK-NOT: ck.repack
  func.func @turned(%x: i8) attributes {ck.waves = 1 : i32} {
    %0 = "ck.splat"(%x) : (i8) -> !across
    %1 = "ck.repack"(%0) {format = "fp4", before = 0, after = 1} : (!across) -> !ck.tile<[8, 64], i8, "?">
    return
  }
}
