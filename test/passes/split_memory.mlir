// A tile's loads, stores and LDS transfers become accesses as wide as alignment and distribution allow.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!tile = !ck.tile<[16, 32], f16, "d0: 16@lane, d1: 4@lane 8@y0">
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[16, 32], strides=[?0%8, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[16, 32], strides=[?0%8, 1]); view(d0, d1) align 8", [16, 32]>
!view_by_two = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[16, 32], strides=[?0%2, 1]); view(d0, d1) align 8">
!window_by_two = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[16, 32], strides=[?0%2, 1]); view(d0, d1) align 8", [16, 32]>
!view_ragged = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[16, ?1%4], strides=[?0%8, 1]); d2 = right_pad(d1, length=?1%4, multiple=32); view(d0, d2) align 8">
!window_ragged = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[16, ?1%4], strides=[?0%8, 1]); d2 = right_pad(d1, length=?1%4, multiple=32); view(d0, d2) align 8", [16, 32]>
!view_columns = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[16, 32], strides=[1, 16]); view(d0, d1) align 8">
!window_columns = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[16, 32], strides=[1, 16]); view(d0, d1) align 8", [16, 32]>

// Pitch and pointer are multiples of 8 elements: one access of 16 bytes.
// CHECK-LABEL: func.func @aligned
// CHECK: "ck.load_fragment"{{.*}}registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>{{.*}} -> vector<8xf16>
// CHECK-NOT: "ck.load_fragment"
// CHECK: "ck.store_fragment"{{.*}}registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>
// CHECK-NOT: "ck.store_fragment"
func.func @aligned(%p: !llvm.ptr<1>, %pitch: i32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %pitch) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %o, %o) : (!view, i32, i32) -> !window
  %t = "ck.load"(%w) : (!window) -> !tile
  "ck.store"(%t, %w) : (!tile, !window) -> ()
  return
}

// Rows start at even elements only: four accesses of 4 bytes.
// CHECK-LABEL: func.func @pairs
// CHECK-COUNT-4: "ck.load_fragment"{{.*}} -> vector<2xf16>
// CHECK-NOT: "ck.load_fragment"
func.func @pairs(%p: !llvm.ptr<1>, %pitch: i32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %pitch) : (!llvm.ptr<1>, i32) -> !view_by_two
  %w = "ck.make_window"(%v, %o, %o) : (!view_by_two, i32, i32) -> !window_by_two
  %t = "ck.load"(%w) : (!window_by_two) -> !tile
  return
}

// A row ends at a multiple of 4: no access may reach over its end.
// CHECK-LABEL: func.func @ragged
// CHECK-COUNT-2: "ck.load_fragment"{{.*}} -> vector<4xf16>
// CHECK-NOT: "ck.load_fragment"
func.func @ragged(%p: !llvm.ptr<1>, %pitch: i32, %k: i32) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %pitch, %k) : (!llvm.ptr<1>, i32, i32) -> !view_ragged
  %w = "ck.make_window"(%v, %o, %o) : (!view_ragged, i32, i32) -> !window_ragged
  %t = "ck.load"(%w) : (!window_ragged) -> !tile
  return
}

// The registers of a lane follow rows, memory follows columns: one element at a time.
// CHECK-LABEL: func.func @across
// CHECK-COUNT-8: "ck.store_fragment"(%{{.*}}) {{{.*}}registers = array<i32: {{[0-7]}}>
// CHECK-NOT: "ck.store_fragment"
func.func @across(%p: !llvm.ptr<1>, %x: f16) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view_columns
  %w = "ck.make_window"(%v, %o, %o) : (!view_columns, i32, i32) -> !window_columns
  %t = "ck.splat"(%x) : (f16) -> !tile
  "ck.store"(%t, %w) : (!tile, !window_columns) -> ()
  return
}

// LDS: contiguous along the dimension that the reader follows; the writer follows the other one and writes singly.
// CHECK-LABEL: func.func @lds
// CHECK: "ck.lds_alloc"() {layout = "lengths 16x32 order 1,0 pitch 16", name = "lds0"}
// CHECK-COUNT-8: "ck.lds_write"(%{{.*}}) {{{.*}} : (vector<1xf16>,
// CHECK: "ck.lds_read"{{.*}}registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>{{.*}} -> vector<8xf16>
func.func @lds(%x: f16) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f16) -> !tile
  %l = "ck.to_lds"(%t) : (!tile) -> !ck.lds<[16, 32], f16>
  %r = "ck.from_lds"(%l) : (!ck.lds<[16, 32], f16>) -> !ck.tile<[16, 32], f16, "d0: 2@lane 8@y0, d1: 32@lane">
  return
}

// An update of memory moves 32 bits at a time.
// CHECK-LABEL: func.func @atomic
// CHECK-COUNT-4: "ck.atomic_fragment"(%{{.*}}) {{{.*}}kind = "add"{{.*}} : (vector<2xf16>,
// CHECK-NOT: "ck.atomic_fragment"
func.func @atomic(%p: !llvm.ptr<1>, %pitch: i32, %x: f16) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %pitch) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %o, %o) : (!view, i32, i32) -> !window
  %t = "ck.splat"(%x) : (f16) -> !tile
  "ck.atomic_update"(%t, %w) {kind = "add"} : (!tile, !window) -> ()
  return
}
