// Views say what divides their lengths, strides and pointers, also where that is known only once a loop has its end; their
// windows say the same.

// RUN: ckmlir-opt %s --ck-infer-divisors | filecheck %s

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1%2], strides=[?2, 1]); d2 = right_pad(d1, length=?1%2, multiple=16); view(d0, d2)">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, ?1%2], strides=[?2, 1]); d2 = right_pad(d1, length=?1%2, multiple=16); view(d0, d2)", [8, 16]>

// A length that was promised, a stride that is computed, a pointer moved by whole rows.
// CHECK-LABEL: func.func @computed
// CHECK: "ck.make_view"{{.*}}lengths=[?0, ?1%6], strides=[?2%32, 1]); d2 = right_pad(d1, length=?1%6, multiple=16); view(d0, d2) align 4
// CHECK: "ck.make_window"{{.*}} -> !ck.window{{.*}}strides=[?2%32, 1]{{.*}}align 4", [8, 16]>
// CHECK: "ck.move_window"{{.*}} -> !ck.window{{.*}}strides=[?2%32, 1]{{.*}}align 4", [8, 16]>
func.func @computed(%p: !llvm.ptr<1> {llvm.align = 16 : i64}, %m: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %32 = arith.constant 32 : i32
  %length = "ck.promise"(%n) {divisor = 3} : (i32) -> i32
  %stride = arith.muli %m, %32 : i32
  %far = arith.extsi %stride : i32 to i64
  %q = llvm.getelementptr %p[%far] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  %v = "ck.make_view"(%q, %m, %length, %stride) : (!llvm.ptr<1>, i32, i32, i32) -> !view
  %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
  %moved = "ck.move_window"(%w, %zero, %zero) : (!window, i32, i32) -> !window
  return
}

// A stride that a loop carries is a multiple of what it starts with and of what is added; one that is also divided is not.
// CHECK-LABEL: func.func @carried
// CHECK: scf.for
// CHECK: "ck.make_view"{{.*}}strides=[?2%12, 1]{{.*}}view(d0, d2)">
// CHECK: "ck.make_view"{{.*}}strides=[?2, 1]
// CHECK: "ck.make_view"{{.*}}strides=[?2%12, 1]
func.func @carried(%p: !llvm.ptr<1>, %m: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %start = arith.constant 24 : i32
  %more = arith.constant 36 : i32
  %ends:2 = scf.for %i = %zero to %n step %one iter_args(%a = %start, %b = %start) -> (i32, i32) : i32 {
    %0 = "ck.make_view"(%p, %m, %n, %a) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    %1 = "ck.make_view"(%p, %m, %n, %b) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    %next = arith.addi %a, %more : i32
    %half = arith.divsi %b, %two : i32
    scf.yield %next, %half : i32, i32
  }
  %2 = "ck.make_view"(%p, %m, %n, %ends#0) : (!llvm.ptr<1>, i32, i32, i32) -> !view
  return
}

// What both arms of a branch give, and what a loop with a condition hands on.
// CHECK-LABEL: func.func @branches
// CHECK: "ck.make_view"{{.*}}strides=[?2%8, 1]
// CHECK: "ck.make_view"{{.*}}strides=[?2%6, 1]
func.func @branches(%p: !llvm.ptr<1>, %m: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %eight = arith.constant 8 : i32
  %six = arith.constant 6 : i32
  %small = arith.cmpi slt, %m, %n : i32
  %stride = scf.if %small -> (i32) {
    %0 = arith.muli %n, %eight : i32
    scf.yield %0 : i32
  } else {
    %1 = arith.constant 16 : i32
    scf.yield %1 : i32
  }
  %2 = "ck.make_view"(%p, %m, %n, %stride) : (!llvm.ptr<1>, i32, i32, i32) -> !view
  %last = scf.while (%a = %six) : (i32) -> i32 {
    %below = arith.cmpi slt, %a, %n : i32
    scf.condition(%below) %a : i32
  } do {
  ^bb0(%a: i32):
    %3 = arith.addi %a, %six : i32
    scf.yield %3 : i32
  }
  %4 = "ck.make_view"(%p, %m, %n, %last) : (!llvm.ptr<1>, i32, i32, i32) -> !view
  return
}
