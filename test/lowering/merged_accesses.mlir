// Many loads and stores through a view that divides have no scalar registers of their own: a row's quotient, and whether
// it exists, go to an offset in a vector register, and one base serves all of them. Few accesses have a base each.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2], strides=[?3, ?4, 1]); d3 = merge(d0, d1, lengths=[?0, ?1]); d4 = right_pad(d3, length=(?0 * ?1), multiple=64); d5 = right_pad(d2, length=?2, multiple=64); view(d4, d5) align 1">
!many = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2], strides=[?3, ?4, 1]); d3 = merge(d0, d1, lengths=[?0, ?1]); d4 = right_pad(d3, length=(?0 * ?1), multiple=64); d5 = right_pad(d2, length=?2, multiple=64); view(d4, d5) align 1", [64, 64]>
!few = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2], strides=[?3, ?4, 1]); d3 = merge(d0, d1, lengths=[?0, ?1]); d4 = right_pad(d3, length=(?0 * ?1), multiple=64); d5 = right_pad(d2, length=?2, multiple=64); view(d4, d5) align 1", [32, 64]>
!fewest = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2], strides=[?3, ?4, 1]); d3 = merge(d0, d1, lengths=[?0, ?1]); d4 = right_pad(d3, length=(?0 * ?1), multiple=64); d5 = right_pad(d2, length=?2, multiple=64); view(d4, d5) align 1", [16, 64]>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @many
  // CHECK: ^bb1(%[[K:.*]]: i32):
  // CHECK: %[[LEFT:.*]] = arith.andi %{{.*}}, %c-2147483648_i32
  // CHECK: %[[ROW:.*]] = arith.ori %{{.*}}, %[[LEFT]]
  // CHECK: %[[KEPT:.*]] = llvm.inline_asm "", "=v,0" %[[ROW]]
  // CHECK: %[[LANES:.*]] = arith.addi %{{.*}}, %[[KEPT]]
  // CHECK: %[[FIRST:.*]] = arith.ori %[[LANES]], %[[COLUMN:.*]] : i32
  // CHECK: %[[BASE:.*]] = rocdl.make.buffer.rsrc
  // CHECK: rocdl.raw.ptr.buffer.load %[[BASE]], %[[FIRST]]
  // CHECK-NOT: rocdl.make.buffer.rsrc
  // CHECK: llvm.inline_asm "", "=v,0"
  // CHECK: %[[SECOND:.*]] = arith.ori %{{.*}}, %[[COLUMN]]
  // CHECK: rocdl.raw.ptr.buffer.load %[[BASE]], %[[SECOND]]

  func.func @many(%p: !llvm.ptr<1>, %m0: i32, %m1: i32, %k: i32, %s0: i32, %s1: i32, %row: i32, %c: i1) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%at: i32):
    %v = "ck.make_view"(%p, %m0, %m1, %k, %s0, %s1) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %at) : (!view, i32, i32) -> !many
    %l0 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@wave, d1: 64@lane", registers = array<i32: 0>} : (!many) -> vector<1xf16>
    %l1 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@wave, d1: 64@lane", registers = array<i32: 1>} : (!many) -> vector<1xf16>
    %next = arith.addi %at, %step : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }

  // CHECK-LABEL: llvm.func @few
  // CHECK-NOT: llvm.inline_asm
  // CHECK: rocdl.make.buffer.rsrc
  // CHECK: rocdl.make.buffer.rsrc
  func.func @few(%p: !llvm.ptr<1>, %m0: i32, %m1: i32, %k: i32, %s0: i32, %s1: i32, %row: i32, %c: i1) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%at: i32):
    %v = "ck.make_view"(%p, %m0, %m1, %k, %s0, %s1) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %at) : (!view, i32, i32) -> !few
    %l0 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 4@wave, d1: 64@lane", registers = array<i32: 0>} : (!few) -> vector<1xf16>
    %l1 = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 4@wave, d1: 64@lane", registers = array<i32: 1>} : (!few) -> vector<1xf16>
    %next = arith.addi %at, %step : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }

  // Stores need registers beside what is stored: eight are many, four are few.
  // CHECK-LABEL: llvm.func @stores
  // CHECK: %[[KEPT:.*]] = llvm.inline_asm "", "=v,0"
  // CHECK: %[[BASE:.*]] = rocdl.make.buffer.rsrc
  // CHECK: rocdl.raw.ptr.buffer.store %{{.*}}, %[[BASE]]
  // CHECK-NOT: rocdl.make.buffer.rsrc
  // CHECK: llvm.inline_asm "", "=v,0"
  // CHECK: rocdl.raw.ptr.buffer.store %{{.*}}, %[[BASE]]
  func.func @stores(%p: !llvm.ptr<1>, %m0: i32, %m1: i32, %k: i32, %s0: i32, %s1: i32, %row: i32, %x: vector<1xf16>) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m0, %m1, %k, %s0, %s1) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !few
    "ck.store_fragment"(%x, %w) {distribution = "d0: 8@y0 4@wave, d1: 64@lane", registers = array<i32: 0>} : (vector<1xf16>, !few) -> ()
    "ck.store_fragment"(%x, %w) {distribution = "d0: 8@y0 4@wave, d1: 64@lane", registers = array<i32: 1>} : (vector<1xf16>, !few) -> ()
    return
  }

  // CHECK-LABEL: llvm.func @few_stores
  // CHECK-NOT: llvm.inline_asm
  // CHECK: rocdl.make.buffer.rsrc
  // CHECK: rocdl.make.buffer.rsrc
  func.func @few_stores(%p: !llvm.ptr<1>, %m0: i32, %m1: i32, %k: i32, %s0: i32, %s1: i32, %row: i32, %x: vector<1xf16>) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m0, %m1, %k, %s0, %s1) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !fewest
    "ck.store_fragment"(%x, %w) {distribution = "d0: 4@y0 4@wave, d1: 64@lane", registers = array<i32: 0>} : (vector<1xf16>, !fewest) -> ()
    "ck.store_fragment"(%x, %w) {distribution = "d0: 4@y0 4@wave, d1: 64@lane", registers = array<i32: 1>} : (vector<1xf16>, !fewest) -> ()
    return
  }
}
