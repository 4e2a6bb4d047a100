// Where more than eight loads before a loop, or without one, divide a place each, LLVM's scheduler moves nothing across
// them: it would find all places, in scalar registers, before the first load. In a step of a loop a schedule says the order.
// Where lanes of a quad share columns, what is divided is not known before its load either.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2], strides=[?3, ?4, 1]); d3 = merge(d0, d1, lengths=[?0, ?1]); d4 = right_pad(d3, length=(?0 * ?1), multiple=64); view(d4, d2)">
!many = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2], strides=[?3, ?4, 1]); d3 = merge(d0, d1, lengths=[?0, ?1]); d4 = right_pad(d3, length=(?0 * ?1), multiple=64); view(d4, d2)", [64, 64]>
!few = !ck.window<f16, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, ?2], strides=[?3, ?4, 1]); d3 = merge(d0, d1, lengths=[?0, ?1]); d4 = right_pad(d3, length=(?0 * ?1), multiple=64); view(d4, d2)", [32, 64]>
!plain = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); view(d0, d1)">
!matrix = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); view(d0, d1)", [64, 64]>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @before
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: rocdl.sched.barrier
  // CHECK: ^bb1
  // CHECK-NOT: rocdl.sched.barrier
  // CHECK: llvm.return
  func.func @before(%p: !llvm.ptr<1>, %m0: i32, %m1: i32, %k: i32, %s0: i32, %s1: i32, %row: i32, %c: i1) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %v = "ck.make_view"(%p, %m0, %m1, %k, %s0, %s1) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w0 = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !many
    %l0 = "ck.load_fragment"(%w0) {distribution = "d0: 16@y0 4@wave, d1: 64@lane", registers = array<i32: 0>} : (!many) -> vector<1xf16>
    cf.br ^bb1(%zero : i32) {ck.advances = array<i32: 0>}
  ^bb1(%at: i32):
    %w = "ck.make_window"(%v, %row, %at) : (!view, i32, i32) -> !many
    %l1 = "ck.load_fragment"(%w) {distribution = "d0: 16@y0 4@wave, d1: 64@lane", registers = array<i32: 1>} : (!many) -> vector<1xf16>
    %next = arith.addi %at, %step : i32
    cf.cond_br %c, ^bb1(%next : i32), ^bb2 {ck.advances = array<i32: 0>}
  ^bb2:
    return
  }

  // Lanes of a quad share columns.
  // CHECK-LABEL: llvm.func @shared
  // CHECK: %[[ROW:.*]] = llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: arith.addi %[[ROW]], %c8_i32
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: rocdl.sched.barrier
  // CHECK: llvm.return
  func.func @shared(%p: !llvm.ptr<1>, %m0: i32, %m1: i32, %k: i32, %s0: i32, %s1: i32, %row: i32) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m0, %m1, %k, %s0, %s1) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !many
    %l = "ck.load_fragment"(%w) {distribution = "r: 4@lane.1, d0: 16@y0 4@wave, d1: 16@lane.0 4@y1", registers = array<i32: 8>} : (!many) -> vector<1xf16>
    return
  }

  // Neither of eight loads, nor of matrices whose places nothing divides.
  // CHECK-LABEL: llvm.func @others
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK-NOT: rocdl.sched.barrier
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK-NOT: rocdl.sched.barrier
  // CHECK: llvm.return
  func.func @others(%p: !llvm.ptr<1>, %m0: i32, %m1: i32, %k: i32, %s0: i32, %s1: i32, %row: i32) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %m0, %m1, %k, %s0, %s1) : (!llvm.ptr<1>, i32, i32, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %row, %zero) : (!view, i32, i32) -> !few
    %l = "ck.load_fragment"(%w) {distribution = "d0: 8@y0 4@wave, d1: 64@lane", registers = array<i32: 0>} : (!few) -> vector<1xf16>
    %u = "ck.make_view"(%p, %m0, %k, %s0) : (!llvm.ptr<1>, i32, i32, i32) -> !plain
    %x = "ck.make_window"(%u, %row, %zero) : (!plain, i32, i32) -> !matrix
    %m = "ck.load_fragment"(%x) {distribution = "d0: 16@y0 4@wave, d1: 64@lane", registers = array<i32: 0>} : (!matrix) -> vector<1xf16>
    return
  }
}
