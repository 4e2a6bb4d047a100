// Packed elements that share bytes across the rows that readers want are turned by the reads of LDS where the chip has
// such reads: they are loaded and written as memory has them. Elsewhere, and where something else takes what is turned,
// registers turn them.

// RUN: ckmlir-opt %s --ck-turn-reads | filecheck %s
// RUN: ckmlir-opt %s --ck-turn-reads --ck-infer-distributions --ck-split-tiles | filecheck %s --check-prefix SPLIT

!view = !ck.view<i8, "global", "d0 d1 = embed(offset, lengths=[64, 128], strides=[1, 64]); view(d0, d1) align 16">
!window = !ck.window<i8, "global", "d0 d1 = embed(offset, lengths=[64, 128], strides=[1, 64]); view(d0, d1) align 16", [16, 128]>
!across = !ck.tile<[16, 128], i8, "d0: 4@lane.0 4@y1, d1: 16@lane.1 8@y0">
!operand = !ck.tile<[32, 64], i8, "d0: 32@lane.1, d1: 2@lane.0 32@y0">

gpu.module @turns [#rocdl.target<chip = "gfx950">] {
  // CHECK-LABEL: func.func @by_reads
  // SPLIT-LABEL: func.func @by_reads
  func.func @by_reads(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    // CHECK: "ck.load"{{.*}} -> !ck.tile<[16, 128], i8, "?">
    // SPLIT: "ck.load_fragment"{{.*}} -> vector<16xi8>
    %loaded = "ck.load"(%window) : (!window) -> !across
    // CHECK-NOT: ck.repack
    // SPLIT-NOT: ck.repack
    %turned = "ck.repack"(%loaded) {format = "fp4", before = 0, after = 1} : (!across) -> !ck.tile<[32, 64], i8, "?">
    // CHECK: "ck.to_lds"{{.*}} {name = "a"} : (!ck.tile<[16, 128], i8, "?">) -> !ck.lds<[16, 128], i8>
    // SPLIT: "ck.lds_alloc"() {layout = "lengths 16x128 order 1,0 pitch 16"
    // SPLIT: "ck.lds_write"{{.*}}vector<16xi8>
    %lds = "ck.to_lds"(%turned) {name = "a"} : (!ck.tile<[32, 64], i8, "?">) -> !ck.lds<[32, 64], i8>
    // CHECK: "ck.from_lds"{{.*}} {after = 1 : i64, before = 0 : i64, format = "fp4"}
    // SPLIT: "ck.lds_read"{{.*}} {distribution = "d0: 2@lane.1 8@y1, d1: 2@lane.0 4@y0 16@lane.2", format = "fp4", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>, transposed}
    // SPLIT: "ck.lds_read"{{.*}} registers = array<i32: 24, 25, 26, 27, 28, 29, 30, 31>, transposed}
    %operand = "ck.from_lds"(%lds) : (!ck.lds<[32, 64], i8>) -> !operand
    return
  }

  // CHECK-LABEL: func.func @used_otherwise
  func.func @used_otherwise(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    %loaded = "ck.load"(%window) : (!window) -> !across
    // CHECK: ck.repack
    %turned = "ck.repack"(%loaded) {format = "fp4", before = 0, after = 1} : (!across) -> !ck.tile<[32, 64], i8, "?">
    %lds = "ck.to_lds"(%turned) : (!ck.tile<[32, 64], i8, "?">) -> !ck.lds<[32, 64], i8>
    %operand = "ck.from_lds"(%lds) : (!ck.lds<[32, 64], i8>) -> !operand
    %again = "ck.to_lds"(%turned) : (!ck.tile<[32, 64], i8, "?">) -> !ck.lds<[32, 64], i8>
    return
  }

  // Lanes that hold other columns than their neighbours' cannot get them from a transposing read.
  // CHECK-LABEL: func.func @otherwise_dealt
  func.func @otherwise_dealt(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    %loaded = "ck.load"(%window) : (!window) -> !across
    // CHECK: ck.repack
    %turned = "ck.repack"(%loaded) {format = "fp4", before = 0, after = 1} : (!across) -> !ck.tile<[32, 64], i8, "?">
    %lds = "ck.to_lds"(%turned) : (!ck.tile<[32, 64], i8, "?">) -> !ck.lds<[32, 64], i8>
    %operand = "ck.from_lds"(%lds) : (!ck.lds<[32, 64], i8>) -> !ck.tile<[32, 64], i8, "d0: 8@lane.1 4@y1, d1: 8@lane.0 8@y0">
    return
  }
}

gpu.module @other [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: func.func @in_registers
  func.func @in_registers(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
    %o = arith.constant 0 : i32
    %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %window = "ck.make_window"(%view, %o, %o) : (!view, i32, i32) -> !window
    %loaded = "ck.load"(%window) : (!window) -> !across
    // CHECK: ck.repack
    %turned = "ck.repack"(%loaded) {format = "fp4", before = 0, after = 1} : (!across) -> !ck.tile<[32, 64], i8, "?">
    %lds = "ck.to_lds"(%turned) : (!ck.tile<[32, 64], i8, "?">) -> !ck.lds<[32, 64], i8>
    // CHECK: "ck.from_lds"({{[^)]*}}) :
    %operand = "ck.from_lds"(%lds) : (!ck.lds<[32, 64], i8>) -> !operand
    return
  }
}
