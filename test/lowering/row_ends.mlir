// The buffer of a window with one row ends with that row: its size is the row's length in 32 bits, and 0 where there is
// no such row. So what lies behind the end of the row is not compared, and its address is a product counted in elements.
// Windows of several rows, and kernels with loops that multiply, have the size of the array in 64 bits.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

!matrix = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%8, 1]); view(d0, d1) align 4">
!row = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%8, 1]); view(d0, d1) align 4", [1, 256]>
!two_rows = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%8, 1]); view(d0, d1) align 4", [2, 256]>
!ragged = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%8, 1]); d2 = right_pad(d1, length=?1, multiple=256); view(d0, d2)">
!ragged_row = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2%8, 1]); d2 = right_pad(d1, length=?1, multiple=256); view(d0, d2)", [1, 64]>
!batch = !ck.view<f32, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 16], strides=[?2, 16, 1]); view(d0, d1, d2)">
!one_of_batch = !ck.window<f32, "global", "d0 d1 d2 = embed(offset, lengths=[?0, ?1, 16], strides=[?2, 16, 1]); view(d0, d1, d2)", [1, 4, 16]>

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @row
  // CHECK-SAME: %[[P:[a-z0-9]+]]: !llvm.ptr<1> {llvm.inreg}, %[[M:[a-z0-9]+]]: i32 {llvm.inreg}, %[[N:[a-z0-9]+]]: i32 {llvm.inreg}, %[[S:[a-z0-9]+]]: i32
  // CHECK: %[[ROW:.*]] = rocdl.workgroup.id.x
  // CHECK-NOT: arith.subi
  // CHECK-DAG: %[[EXISTS:.*]] = arith.cmpi ult, %[[ROW]], %[[M]] : i32
  // CHECK-DAG: %[[KEPT:.*]] = arith.minui %[[N]], %{{.*}} : i32
  // CHECK-DAG: %[[BYTES:.*]] = arith.shli %[[KEPT]], %{{.*}} : i32
  // CHECK-DAG: %[[BEGIN:.*]] = arith.muli %{{.*}}, %{{.*}} : i64
  // CHECK-DAG: %[[BASE:.*]] = llvm.getelementptr %[[P]][%[[BEGIN]]] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i16
  // CHECK-DAG: %[[SIZE:.*]] = arith.select %[[EXISTS]], %[[BYTES]], %{{.*}} : i32
  // CHECK-DAG: %[[WIDE:.*]] = arith.extui %[[SIZE]] : i32 to i64
  // CHECK: rocdl.make.buffer.rsrc %[[BASE]], %{{.*}}, %[[WIDE]]
  func.func @row(%p: !llvm.ptr<1>, %m: i32, %n: i32, %s: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %row = "ck.workgroup_id"() {axis = 0 : i64} : () -> i32
    %view = "ck.make_view"(%p, %m, %n, %s) : (!llvm.ptr<1>, i32, i32, i32) -> !matrix
    %window = "ck.make_window"(%view, %row, %zero) : (!matrix, i32, i32) -> !row
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!row) -> vector<4xf16>
    return
  }

  // CHECK-LABEL: llvm.func @two_rows
  // CHECK: arith.subi %{{.*}} : i64
  // CHECK: arith.shrui %{{.*}} : i64
  // CHECK: rocdl.make.buffer.rsrc
  func.func @two_rows(%p: !llvm.ptr<1>, %m: i32, %n: i32, %s: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %row = "ck.workgroup_id"() {axis = 0 : i64} : () -> i32
    %view = "ck.make_view"(%p, %m, %n, %s) : (!llvm.ptr<1>, i32, i32, i32) -> !matrix
    %window = "ck.make_window"(%view, %row, %zero) : (!matrix, i32, i32) -> !two_rows
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 2@y0, d1: 64@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!two_rows) -> vector<4xf16>
    return
  }

  // CHECK-LABEL: llvm.func @ragged_row
  // CHECK-COUNT-1: arith.cmpi
  // CHECK-NOT: arith.cmpi
  // CHECK: rocdl.raw.ptr.buffer.load
  func.func @ragged_row(%p: !llvm.ptr<1>, %m: i32, %n: i32, %s: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %row = "ck.workgroup_id"() {axis = 0 : i64} : () -> i32
    %view = "ck.make_view"(%p, %m, %n, %s) : (!llvm.ptr<1>, i32, i32, i32) -> !ragged
    %window = "ck.make_window"(%view, %row, %zero) : (!ragged, i32, i32) -> !ragged_row
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 1, d1: 64@lane", registers = array<i32: 0>} : (!ragged_row) -> vector<1xf16>
    return
  }

  // What begins behind the first row of its matrix has that distance taken from the size.
  // CHECK-LABEL: llvm.func @one_of_batch
  // CHECK-SAME: %{{.*}}: i32 {llvm.inreg}, %{{.*}}: i32 {llvm.inreg}, %{{.*}}: i32 {llvm.inreg}, %[[FIRST:[a-z0-9]+]]: i32
  // CHECK: %[[EXISTS:.*]] = arith.cmpi ult
  // CHECK: %[[WIDE:.*]] = arith.extui %[[FIRST]] : i32 to i64
  // CHECK: %[[PASSED:.*]] = arith.shli %[[WIDE]], %{{.*}} : i64
  // CHECK: arith.subi %{{.*}}, %[[PASSED]] : i64
  // CHECK: arith.select %[[EXISTS]]
  // CHECK: rocdl.make.buffer.rsrc
  func.func @one_of_batch(%p: !llvm.ptr<1>, %m: i32, %n: i32, %s: i32, %first: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %matrix = "ck.workgroup_id"() {axis = 0 : i64} : () -> i32
    %view = "ck.make_view"(%p, %m, %n, %s) : (!llvm.ptr<1>, i32, i32, i32) -> !batch
    %window = "ck.make_window"(%view, %matrix, %first, %zero) : (!batch, i32, i32, i32) -> !one_of_batch
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 1, d1: 4@lane, d2: 16@lane", registers = array<i32: 0>} : (!one_of_batch) -> vector<1xf32>
    return
  }

  // Around a loop each pointer but the first has a size of its own, as LLVM sees it: a 0 that it does not know is added.
  // The same pointer's buffers have one.
  // CHECK-LABEL: llvm.func @around_a_loop
  // CHECK-SAME: %[[P:[a-z0-9]+]]: !llvm.ptr<1> {llvm.inreg}, %[[Q:[a-z0-9]+]]: !llvm.ptr<1>
  // CHECK: %[[ZERO:.*]] = llvm.inline_asm "", "=s,0"
  // CHECK-NOT: arith.shrui
  // CHECK: llvm.getelementptr %[[P]]
  // CHECK: %[[SIZE:.*]] = arith.select
  // CHECK: arith.extui %[[SIZE]]
  // CHECK: rocdl.make.buffer.rsrc
  // CHECK: llvm.getelementptr %[[Q]]
  // CHECK: %[[SAME:.*]] = arith.select
  // CHECK: %[[OTHER:.*]] = arith.addi %[[SAME]], %{{.*}} : i32
  // CHECK: arith.extui %[[OTHER]]
  // CHECK: rocdl.make.buffer.rsrc
  // CHECK-NOT: rocdl.make.buffer.rsrc
  // CHECK: llvm.return
  func.func @around_a_loop(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %m: i32, %n: i32, %s: i32, %c: i1) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %row = "ck.workgroup_id"() {axis = 0 : i64} : () -> i32
    cf.br ^head
  ^head:
    %view = "ck.make_view"(%p, %m, %n, %s) : (!llvm.ptr<1>, i32, i32, i32) -> !matrix
    %window = "ck.make_window"(%view, %row, %zero) : (!matrix, i32, i32) -> !row
    %other_view = "ck.make_view"(%q, %m, %n, %s) : (!llvm.ptr<1>, i32, i32, i32) -> !matrix
    %other_window = "ck.make_window"(%other_view, %row, %zero) : (!matrix, i32, i32) -> !row
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!row) -> vector<4xf16>
    %1 = "ck.load_fragment"(%other_window) {distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!row) -> vector<4xf16>
    "ck.store_fragment"(%1, %window) {distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !row) -> ()
    cf.cond_br %c, ^head, ^end
  ^end:
    return
  }

  // CHECK-LABEL: llvm.func @multiplies_in_a_loop
  // CHECK: arith.subi %{{.*}} : i64
  // CHECK: arith.shrui %{{.*}} : i64
  // CHECK: rocdl.make.buffer.rsrc
  func.func @multiplies_in_a_loop(%p: !llvm.ptr<1>, %m: i32, %n: i32, %s: i32, %c: i1, %acc: vector<16xf32>) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %row = "ck.workgroup_id"() {axis = 0 : i64} : () -> i32
    %view = "ck.make_view"(%p, %m, %n, %s) : (!llvm.ptr<1>, i32, i32, i32) -> !matrix
    %window = "ck.make_window"(%view, %row, %zero) : (!matrix, i32, i32) -> !row
    %0 = "ck.load_fragment"(%window) {distribution = "d0: 1, d1: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!row) -> vector<4xf16>
    cf.br ^head(%acc : vector<16xf32>)
  ^head(%sum: vector<16xf32>):
    %next = "ck.mfma"(%0, %0, %sum) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    cf.cond_br %c, ^head(%next : vector<16xf32>), ^end
  ^end:
    return
  }
}
