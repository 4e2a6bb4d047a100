// A tile that only memory constrains gets the distribution whose accesses are widest.

// RUN: ckmlir-opt %s --ck-infer-distributions | filecheck %s

!unknown = !ck.tile<[64, 32], f16, "?">
!lds = !ck.lds<[64, 32], f16>

// Rows of a multiple of 8 elements: 16 bytes a lane, neighbouring lanes along the rows.
// CHECK-LABEL: func.func @aligned_rows
func.func @aligned_rows(%p: !llvm.ptr<1>, %m: i32, %pitch: i32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8">, i32, i32) -> !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8", [64, 32]>
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 4@y0 16@lane, d1: 4@lane 8@y1">
  %t = "ck.load"(%w) : (!ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8", [64, 32]>) -> !unknown
  return
}

// Two waves share the rows.
// CHECK-LABEL: func.func @two_waves
func.func @two_waves(%p: !llvm.ptr<1>, %m: i32, %pitch: i32) attributes {ck.waves = 2 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8">, i32, i32) -> !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8", [64, 32]>
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[64, 32], f16, "d0: {{.*}}@wave{{.*}}, d1: 4@lane 8@y1">
  %t = "ck.load"(%w) : (!ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1%8, 1]); view(d0, d1) align 8", [64, 32]>) -> !unknown
  return
}

// Nothing is known of the pitch: one element at a time.
// CHECK-LABEL: func.func @unaligned_rows
func.func @unaligned_rows(%p: !llvm.ptr<1>, %m: i32, %pitch: i32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1, 1]); view(d0, d1) align 8">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1, 1]); view(d0, d1) align 8">, i32, i32) -> !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1, 1]); view(d0, d1) align 8", [64, 32]>
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 32@y0 2@lane, d1: 32@lane">
  %t = "ck.load"(%w) : (!ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1, 1]); view(d0, d1) align 8", [64, 32]>) -> !unknown
  return
}

// Columns are contiguous and nothing is known of the pitch: one element at a time, and still neighbouring lanes along them.
// Where readers of LDS want rows, a lane has eight elements of one, which it writes in one piece.
// CHECK-LABEL: func.func @unaligned_columns
func.func @unaligned_columns(%p: !llvm.ptr<1>, %m: i32, %pitch: i32) attributes {ck.waves = 2 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[1, ?1]); view(d0, d1)">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[1, ?1]); view(d0, d1)">, i32, i32) -> !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[1, ?1]); view(d0, d1)", [64, 32]>
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 64@lane, d1: 16@y0 2@wave">
  %t = "ck.load"(%w) : (!ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[1, ?1]); view(d0, d1)", [64, 32]>) -> !unknown
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 64@lane, d1: 2@y0 2@wave 8@y1">
  %u = "ck.load"(%w) : (!ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 32], strides=[1, ?1]); view(d0, d1)", [64, 32]>) -> !unknown
  %l = "ck.to_lds"(%u) : (!unknown) -> !lds
  %r = "ck.from_lds"(%l) : (!lds) -> !ck.tile<[64, 32], f16, "d0: 2@y0 2@wave 16@lane.1, d1: 4@lane.0 8@y1">
  return
}

// Columns are contiguous: lanes and vectors follow them.
// CHECK-LABEL: func.func @columns
func.func @columns(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8">, i32, i32) -> !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8", [64, 32]>
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 8@lane.1 8@y1, d1: 4@y0 8@lane.0">
  %t = "ck.load"(%w) : (!ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8", [64, 32]>) -> !unknown
  return
}

// Columns are contiguous, and who reads the tile from LDS reads along rows: each lane loads a block, to turn it.
// CHECK-LABEL: func.func @transposed_block
func.func @transposed_block(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8">, i32, i32) -> !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8", [64, 32]>
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 16@lane.1 4@y1, d1: 4@lane.0 8@y0">
  %t = "ck.load"(%w) : (!ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[1, 64]); view(d0, d1) align 8", [64, 32]>) -> !unknown
  %l = "ck.to_lds"(%t) : (!unknown) -> !lds
  %r = "ck.from_lds"(%l) : (!lds) -> !ck.tile<[64, 32], f16, "d0: 4@y0 16@lane.1, d1: 4@lane.0 8@y1">
  return
}

// What is made to be stored lies as its store wants it: 16 bytes a lane, 4 where memory adds.
// CHECK-LABEL: func.func @stored
func.func @stored(%p: !llvm.ptr<1>, %x: f16, %n: i32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[32, 1]); view(d0, d1) align 8">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[32, 1]); view(d0, d1) align 8">, i32, i32) -> !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[32, 1]); view(d0, d1) align 8", [64, 32]>
  // CHECK: "ck.splat"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 4@y0 16@lane, d1: 4@lane 8@y1">
  %t = "ck.splat"(%x) : (f16) -> !unknown
  "ck.store"(%t, %w) : (!unknown, !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[32, 1]); view(d0, d1) align 8", [64, 32]>) -> ()
  // CHECK: "ck.splat"{{.*}} -> !ck.tile<[64, 32], f16, "d0: 16@y0 4@lane, d1: 16@lane 2@y1">
  %u = "ck.splat"(%x) : (f16) -> !unknown
  "ck.atomic_update"(%u, %w) {kind = "add"} : (!unknown, !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, 32], strides=[32, 1]); view(d0, d1) align 8", [64, 32]>) -> ()
  return
}
