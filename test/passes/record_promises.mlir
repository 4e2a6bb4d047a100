// Promises leave the program, which goes on with what was promised of; beside it stays what computes their values, and no
// more than that: the loop and the branch around a promise, not what else they do.

// RUN: ckmlir-opt %s --ck-record-promises | filecheck %s

// CHECK-LABEL: func.func @plain
// CHECK-NOT: ck.promises
// CHECK: return
func.func @plain(%n: i32) attributes {ck.waves = 1 : i32} {
  return
}

// CHECK-LABEL: func.func @argument
// CHECK-SAME: i32, %[[N:[a-z0-9]+]]: i32 {ck.divisor = 8 : i64})
// CHECK-SAME: ck.promises = "{{..}}\22is\22,0,\22argument\22,1],[\22multiple\22,0,8,\22
// CHECK-NOT: ck.promise
// CHECK: arith.addi %[[N]], %[[N]]
func.func @argument(%m: i32, %n: i32) attributes {ck.waves = 1 : i32} {
  %unrelated = arith.muli %m, %m : i32
  %0 = "ck.promise"(%n) {divisor = 8} : (i32) -> i32
  %1 = arith.addi %0, %n : i32
  return
}

// CHECK-LABEL: func.func @control
// CHECK-SAME: [\22is\22,1,\22workgroup\22,1]
// CHECK-SAME: [\22is\22,5,\22address\22,4,0,4],[\22is\22,6,\22load\22,4,5],[\22for\22,9,2,6,3,{{..}}8,1]],
// CHECK-SAME: {{..}}\22is\22,7,\22cmpi 2\22,32,8,9],[\22if\22,7,{{..}}\22multiple\22,8,4,\22
// CHECK-SAME: [\22is\22,10,\22addi\22,32,8,3]],[10],[11]]]"
// CHECK: scf.for
// CHECK-NOT: ck.promise
// CHECK: return
func.func @control(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
  %g = "ck.workgroup_id"() {axis = 1} : () -> i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %wide = arith.extsi %g : i32 to i64
  %place = llvm.getelementptr %p[%wide] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
  %count = llvm.load %place invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %last = scf.for %i = %zero to %count step %one iter_args(%a = %g) -> (i32) : i32 {
    %below = arith.cmpi slt, %a, %i : i32
    scf.if %below {
      %0 = "ck.promise"(%a) {divisor = 4} : (i32) -> i32
    }
    %twice = arith.muli %i, %i : i32
    %next = arith.addi %a, %one : i32
    scf.yield %next : i32
  }
  return
}


// What is promised of an argument where the kernel always comes by stays known of it; elsewhere it may not hold.
// CHECK-LABEL: func.func @sometimes
// CHECK-SAME: (%{{[a-z0-9]+}}: i32, %{{[a-z0-9]+}}: i1)
func.func @sometimes(%n: i32, %c: i1) attributes {ck.waves = 1 : i32} {
  scf.if %c {
    %0 = "ck.promise"(%n) {divisor = 8} : (i32) -> i32
  }
  return
}

// An access that is said to be near relies on its view ending within 2 GiB: the view's bytes are computed from its sizes.
// Where they are known, or the access is far, there is nothing to test.
!open = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%4, 1]); view(d0, d1)">
!opened = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%4, 1]); view(d0, d1)", [1, 256]>
!known = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[9, 64], strides=[64, 1]); view(d0, d1)">
!seen = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[9, 64], strides=[64, 1]); view(d0, d1)", [1, 256]>

// CHECK-LABEL: func.func @near
// CHECK-SAME: ck.promises
// CHECK-SAME: [\22is\22,[[BYTES:[0-9]+]],\22muli\22,64,{{[0-9]+}},{{[0-9]+}}],[\22near\22,[[BYTES]],2147483648,
// CHECK-NOT: \22near\22
// CHECK: return
func.func @near(%p: !llvm.ptr<1>, %rows: i32, %pitch: i32, %i: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %open = "ck.make_view"(%p, %rows, %pitch) : (!llvm.ptr<1>, i32, i32) -> !open
  %opened = "ck.make_window"(%open, %zero, %zero) : (!open, i32, i32) -> !opened
  %known = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !known
  %seen = "ck.make_window"(%known, %zero, %zero) : (!known, i32, i32) -> !seen
  %0 = "ck.gather_fragment"(%opened, %i) {axis = 0, reach = "near", distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!opened, i32) -> vector<4xf32>
  %1 = "ck.gather_fragment"(%opened, %i) {axis = 0, reach = "far", distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!opened, i32) -> vector<4xf32>
  %2 = "ck.gather_fragment"(%seen, %i) {axis = 0, reach = "near", distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!seen, i32) -> vector<4xf32>
  return
}
