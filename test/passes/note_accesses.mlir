// Accesses that are narrower than alignment and rows allow are noted with width, what is possible, number, reason and line:
// the stride, the view's transforms, where the window starts, the distribution. What ragged rows or alignment forbid is not.

// RUN: ckmlir-opt %s --ck-note-accesses | filecheck %s

!v_good = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 256], strides=[?1%4, 1]); view(d0, d1) align 4">
!w_good = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 256], strides=[?1%4, 1]); view(d0, d1) align 4", [4, 64]>
!v_stride = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 256], strides=[?1%2, 1]); view(d0, d1) align 4">
!w_stride = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 256], strides=[?1%2, 1]); view(d0, d1) align 4", [4, 64]>
!v_ragged = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%4, 1]); view(d0, d1) align 4">
!w_ragged = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%4, 1]); view(d0, d1) align 4", [4, 64]>
!v_tail = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 256], strides=[?1%4, 1]); d2 = offset(d1, length=128, offset=?2); view(d0, d2) align 4">
!w_tail = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 256], strides=[?1%4, 1]); d2 = offset(d1, length=128, offset=?2); view(d0, d2) align 4", [4, 64]>

// CHECK-LABEL: func.func @wide
// CHECK-NOT: ck.accesses
// CHECK: return
func.func @wide(%p: !llvm.ptr<1>, %s0: i32, %s1: i32, %a: i32, %v: vector<4xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %view = "ck.make_view"(%p, %s0, %s1) : (!llvm.ptr<1>, i32, i32) -> !v_good
  %window = "ck.make_window"(%view, %zero, %zero) : (!v_good, i32, i32) -> !w_good
  %0 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!w_good) -> vector<4xf32>
  return
}

// CHECK-LABEL: func.func @ragged_rows
// CHECK-NOT: ck.accesses
// CHECK: return
func.func @ragged_rows(%p: !llvm.ptr<1>, %s0: i32, %s1: i32, %s2: i32, %a: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %view = "ck.make_view"(%p, %s0, %s1, %s2) : (!llvm.ptr<1>, i32, i32, i32) -> !v_ragged
  %window = "ck.make_window"(%view, %zero, %zero) : (!v_ragged, i32, i32) -> !w_ragged
  %0 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 0>} : (!w_ragged) -> vector<1xf32>
  %1 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 1>} : (!w_ragged) -> vector<1xf32>
  %2 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 2>} : (!w_ragged) -> vector<1xf32>
  %3 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 3>} : (!w_ragged) -> vector<1xf32>
  return
}

// CHECK-LABEL: func.func @strides
// CHECK-SAME: ck.accesses = "{{..}}\22load\22,8,16,2,\22a stride is known to be a multiple of 2 elements only, not of 4\22,\22{{.*}}note_accesses.mlir\22,
func.func @strides(%p: !llvm.ptr<1>, %s0: i32, %s1: i32, %a: i32, %v: vector<2xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %view = "ck.make_view"(%p, %s0, %s1) : (!llvm.ptr<1>, i32, i32) -> !v_stride
  %window = "ck.make_window"(%view, %zero, %zero) : (!v_stride, i32, i32) -> !w_stride
  %0 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 0, 1>} : (!w_stride) -> vector<2xf32>
  %1 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 2, 3>} : (!w_stride) -> vector<2xf32>
  return
}

// CHECK-LABEL: func.func @transforms
// CHECK-SAME: ck.accesses = "{{..}}\22load\22,4,16,4,\22the view's transforms keep only 1 neighbours together\22,\22{{.*}}note_accesses.mlir\22,
func.func @transforms(%p: !llvm.ptr<1>, %s0: i32, %s1: i32, %s2: i32, %a: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %view = "ck.make_view"(%p, %s0, %s1, %s2) : (!llvm.ptr<1>, i32, i32, i32) -> !v_tail
  %window = "ck.make_window"(%view, %zero, %zero) : (!v_tail, i32, i32) -> !w_tail
  %0 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 0>} : (!w_tail) -> vector<1xf32>
  %1 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 1>} : (!w_tail) -> vector<1xf32>
  %2 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 2>} : (!w_tail) -> vector<1xf32>
  %3 = "ck.load_fragment"(%window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 3>} : (!w_tail) -> vector<1xf32>
  return
}

// CHECK-LABEL: func.func @starts
// CHECK-SAME: ck.accesses = "{{..}}\22store\22,4,16,4,\22the window is known to start at a multiple of 1 elements only\22,\22{{.*}}note_accesses.mlir\22,
func.func @starts(%p: !llvm.ptr<1>, %s0: i32, %s1: i32, %a: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %view = "ck.make_view"(%p, %s0, %s1) : (!llvm.ptr<1>, i32, i32) -> !v_good
  %window = "ck.make_window"(%view, %zero, %a) : (!v_good, i32, i32) -> !w_good
  "ck.store_fragment"(%v, %window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 0>} : (vector<1xf32>, !w_good) -> ()
  "ck.store_fragment"(%v, %window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 1>} : (vector<1xf32>, !w_good) -> ()
  "ck.store_fragment"(%v, %window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 2>} : (vector<1xf32>, !w_good) -> ()
  "ck.store_fragment"(%v, %window) {distribution = "d0: 4@lane, d1: 16@lane 4@y0", registers = array<i32: 3>} : (vector<1xf32>, !w_good) -> ()
  return
}

// CHECK-LABEL: func.func @distributions
// CHECK-SAME: ck.accesses = "{{..}}\22load\22,4,16,4,\22of 4 neighbours the distribution gives a thread 1\22,\22{{.*}}note_accesses.mlir\22,
func.func @distributions(%p: !llvm.ptr<1>, %s0: i32, %s1: i32, %a: i32, %v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %view = "ck.make_view"(%p, %s0, %s1) : (!llvm.ptr<1>, i32, i32) -> !v_good
  %window = "ck.make_window"(%view, %zero, %zero) : (!v_good, i32, i32) -> !w_good
  %0 = "ck.load_fragment"(%window) {distribution = "d0: 4@y0, d1: 64@lane", registers = array<i32: 0>} : (!w_good) -> vector<1xf32>
  %1 = "ck.load_fragment"(%window) {distribution = "d0: 4@y0, d1: 64@lane", registers = array<i32: 1>} : (!w_good) -> vector<1xf32>
  %2 = "ck.load_fragment"(%window) {distribution = "d0: 4@y0, d1: 64@lane", registers = array<i32: 2>} : (!w_good) -> vector<1xf32>
  %3 = "ck.load_fragment"(%window) {distribution = "d0: 4@y0, d1: 64@lane", registers = array<i32: 3>} : (!w_good) -> vector<1xf32>
  return
}
