// Whether pieces of a row exist is compared once where lengths and places are multiples of what the pieces are part of:
// the end of a merged dimension lies between such units.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0%8, ?1, 64], strides=[?3%8, ?2%8, 1]); d3 = merge(d1, d0, lengths=[?1, ?0%8]); d4 = right_pad(d3, length=(?1 * ?0%8), multiple=64); view(d2, d4) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0%8, ?1, 64], strides=[?3%8, ?2%8, 1]); d3 = merge(d1, d0, lengths=[?1, ?0%8]); d4 = right_pad(d3, length=(?1 * ?0%8), multiple=64); view(d2, d4) align 8", [64, 32]>

// CHECK-LABEL: llvm.func @whole_units
// CHECK: arith.cmpi ult
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK-NOT: arith.cmpi ult
// CHECK: rocdl.raw.ptr.buffer.load
module attributes {ck.target = "gfx942"} {
  func.func @whole_units(%p: !llvm.ptr<1>, %channels: i32, %taps: i32, %a: i32, %b: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %channels, %taps, %a, %b) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

// Where nothing is known of the length, the end may lie between them.
!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 64], strides=[?3%8, ?2%8, 1]); d3 = merge(d1, d0, lengths=[?1, ?0]); d4 = right_pad(d3, length=(?1 * ?0), multiple=64); view(d2, d4) align 8">
!window = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 64], strides=[?3%8, ?2%8, 1]); d3 = merge(d1, d0, lengths=[?1, ?0]); d4 = right_pad(d3, length=(?1 * ?0), multiple=64); view(d2, d4) align 8", [64, 32]>

// CHECK-LABEL: llvm.func @any_length
// CHECK: arith.cmpi ult
// CHECK: rocdl.raw.ptr.buffer.load
// CHECK: arith.cmpi ult
// CHECK: rocdl.raw.ptr.buffer.load
module attributes {ck.target = "gfx942"} {
  func.func @any_length(%p: !llvm.ptr<1>, %channels: i32, %taps: i32, %a: i32, %b: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %channels, %taps, %a, %b) : (!llvm.ptr<1>, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    %1 = "ck.load_fragment"(%w) {distribution = "d0: 8@lane.1 8@y1, d1: 8@lane.0 4@y0", registers = array<i32: 8, 9, 10, 11, 12, 13, 14, 15>} : (!window) -> vector<8xf16>
    return
  }
}
