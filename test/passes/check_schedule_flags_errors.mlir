// A load that has moved before the wait for another workgroup's flag does not see what that one has written, wherever the
// flag lies; behind the wait nothing is said.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --pass-pipeline='ck-check-schedule{reference=%S/Inputs/check_schedule_flags_reference.mlir}'

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
  func.func @read(%p: !llvm.ptr<1>, %flag: !llvm.ptr<1>, %n: i32) -> vector<1xf32> attributes {ck.waves = 1 : i32, arg_attrs = [{llvm.noalias}, {llvm.noalias}, {}]} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !window
    "ck.await_flag"(%n, %flag) : (i32, !llvm.ptr<1>) -> ()
    %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    return %t : vector<1xf32>
  }
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
  func.func @read(%p: !llvm.ptr<1>, %flag: !llvm.ptr<1>, %n: i32) -> vector<1xf32> attributes {ck.waves = 1 : i32, arg_attrs = [{llvm.noalias}, {llvm.noalias}, {}]} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !view
    %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !window
    // expected-error@+1 {{'ck.load_fragment' is to happen after 'ck.await_flag': they may touch the same memory [order]}}
    %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    "ck.await_flag"(%n, %flag) : (i32, !llvm.ptr<1>) -> ()
    return %t : vector<1xf32>
  }
}
