// More than four loads of a tile of bytes that have one address for all lanes have it in a vector register, so that LLVM
// does not take the addresses and all that is loaded for scalars, of which there are fewer registers.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<i8, "global", "d0 = embed(offset, lengths=[?0], strides=[?1]); view(d0)">
!eight = !ck.window<i8, "global", "d0 = embed(offset, lengths=[?0], strides=[?1]); view(d0)", [16]>
!lanes = !ck.window<i8, "global", "d0 = embed(offset, lengths=[?0], strides=[?1]); view(d0)", [512]>
!four = !ck.window<i8, "global", "d0 = embed(offset, lengths=[?0], strides=[?1]); view(d0)", [8]>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @eight
  // CHECK: %[[FIRST:.*]] = llvm.inline_asm "", "=v,0" %{{.*}} : (i32) -> i32
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[FIRST]],
  // CHECK: %[[NEXT:.*]] = llvm.inline_asm "", "=v,0" %{{.*}} : (i32) -> i32
  // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %[[NEXT]],
  func.func @eight(%p: !llvm.ptr<1>, %n: i32, %stride: i32) attributes {ck.waves = 2 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %n, %stride) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !eight
    %0 = "ck.load_fragment"(%w) {distribution = "r: 64@lane, d0: 8@y0 2@wave", registers = array<i32: 0>} : (!eight) -> vector<1xi8>
    %1 = "ck.load_fragment"(%w) {distribution = "r: 64@lane, d0: 8@y0 2@wave", registers = array<i32: 1>} : (!eight) -> vector<1xi8>
    return
  }

  // Those of each lane's own are in vector registers anyway.
  // CHECK-LABEL: llvm.func @lanes
  // CHECK-NOT: llvm.inline_asm
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK-NOT: llvm.inline_asm
  func.func @lanes(%p: !llvm.ptr<1>, %n: i32, %stride: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %n, %stride) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !lanes
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 64@lane", registers = array<i32: 1>} : (!lanes) -> vector<1xi8>
    return
  }

  // CHECK-LABEL: llvm.func @four
  // CHECK-NOT: llvm.inline_asm
  // CHECK: rocdl.raw.ptr.buffer.load
  func.func @four(%p: !llvm.ptr<1>, %n: i32, %stride: i32) attributes {ck.waves = 2 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %n, %stride) : (!llvm.ptr<1>, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero) : (!view, i32) -> !four
    %0 = "ck.load_fragment"(%w) {distribution = "r: 64@lane, d0: 4@y0 2@wave", registers = array<i32: 1>} : (!four) -> vector<1xi8>
    return
  }
}
