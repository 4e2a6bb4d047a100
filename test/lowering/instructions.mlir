// Fragments that are one instruction become that instruction.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @mfma
  // CHECK: rocdl.mfma.f32.16x16x16f16 %{{.*}}, %{{.*}}, %{{.*}}, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  func.func @mfma(%a: vector<4xf16>, %c: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    return
  }

  // Operands that the instruction takes as integers.
  // CHECK-LABEL: llvm.func @mfma_i8
  // CHECK: llvm.bitcast %{{.*}} : vector<8xi8> to i64
  // CHECK: rocdl.mfma.i32.16x16x32.i8
  func.func @mfma_i8(%a: vector<8xi8>, %c: vector<4xi32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "i32.16x16x32.i8"} : (vector<8xi8>, vector<8xi8>, vector<4xi32>) -> vector<4xi32>
    return
  }

  // Exchanges: within 16 lanes by DPP, at 4 only where the lanes below are equal, else swizzle within 32, permute across.
  // CHECK-LABEL: llvm.func @exchange
  // CHECK: rocdl.update.dpp {{.*}} with 177, 15, 15, true
  // CHECK: rocdl.update.dpp {{.*}} with 78, 15, 15, true
  // CHECK: rocdl.update.dpp {{.*}} with 321, 15, 15, true
  // CHECK: arith.constant 4127 : i32
  // CHECK: rocdl.ds_swizzle
  // CHECK: rocdl.update.dpp {{.*}} with 296, 15, 15, true
  // CHECK: arith.constant 16415 : i32
  // CHECK: rocdl.ds_swizzle
  // CHECK: arith.xori
  // CHECK: rocdl.ds_bpermute
  func.func @exchange(%x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
    %1 = "ck.exchange"(%x) {mask = 1 : i64} : (vector<1xf32>) -> vector<1xf32>
    %2 = "ck.exchange"(%1) {mask = 2 : i64} : (vector<1xf32>) -> vector<1xf32>
    %3 = "ck.exchange"(%2) {mask = 4 : i64, equal_below} : (vector<1xf32>) -> vector<1xf32>
    %4 = "ck.exchange"(%3) {mask = 4 : i64} : (vector<1xf32>) -> vector<1xf32>
    %5 = "ck.exchange"(%4) {mask = 8 : i64} : (vector<1xf32>) -> vector<1xf32>
    %6 = "ck.exchange"(%5) {mask = 16 : i64} : (vector<1xf32>) -> vector<1xf32>
    %7 = "ck.exchange"(%6) {mask = 32 : i64} : (vector<1xf32>) -> vector<1xf32>
    return
  }

  // What one lane of each row of 16 has goes to all of them by a DPP move a dword (row_newbcast).
  // CHECK-LABEL: llvm.func @row_lane
  // CHECK: rocdl.update.dpp %{{.*}}, %{{.*}} with 341, 15, 15, true : i32
  // CHECK: rocdl.update.dpp %{{.*}}, %{{.*}} with 341, 15, 15, true : i32
  // CHECK-NOT: rocdl.update.dpp
  func.func @row_lane(%x: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.row_lane"(%x) {lane = 5 : i64} : (vector<2xf32>) -> vector<2xf32>
    return
  }

  // Where the lanes below are equal, exchanges at 16 and 32 are DPP moves too: the last lane of the next row of 16 lanes is
  // shifted over the edge and spread over its row, the odd rows take the last lane of the row before; lane 63 goes to the
  // lower half, lane 31 to the upper one. Moves take a dword as it is.
  // CHECK-LABEL: llvm.func @exchange_of_equals
  // CHECK-NOT: {{ds_|bitcast}}
  // CHECK: %[[SHIFTED:.+]] = rocdl.update.dpp {{.*}} with 304, 15, 15, true
  // CHECK: %[[SPREAD:.+]] = rocdl.update.dpp {{.*}}, %[[SHIFTED]] with 351, 15, 15, true
  // CHECK: rocdl.update.dpp %[[SPREAD]], {{.*}} with 322, 10, 15, true
  // CHECK: %[[LAST:.+]] = rocdl.readlane
  // CHECK: rocdl.update.dpp %[[LAST]], {{.*}} with 323, 12, 15, true
  // CHECK-NOT: bitcast
  // CHECK: llvm.return
  func.func @exchange_of_equals(%x: vector<1xf32>) attributes {ck.waves = 1 : i32} {
    %1 = "ck.exchange"(%x) {mask = 16 : i64, equal_below} : (vector<1xf32>) -> vector<1xf32>
    %2 = "ck.exchange"(%1) {mask = 32 : i64, equal_below} : (vector<1xf32>) -> vector<1xf32>
    return
  }

  // CHECK-LABEL: llvm.func @synchronisation
  // CHECK: rocdl.s.waitcnt 49279
  // CHECK-NEXT: rocdl.s.barrier
  // CHECK-NEXT: rocdl.s.waitcnt 3955
  // CHECK-NEXT: rocdl.sched.barrier none
  // CHECK-NEXT: rocdl.sched.group.barrier ds_read, 2, 0
  // CHECK-NEXT: rocdl.s.setprio 2
  func.func @synchronisation() attributes {ck.waves = 1 : i32} {
    "ck.wait"() {lds = 0 : i64} : () -> ()
    "ck.barrier"() : () -> ()
    "ck.wait"() {vector_memory = 3 : i64} : () -> ()
    "ck.sched_barrier"() {mask = "none"} : () -> ()
    "ck.sched_group_barrier"() {mask = "ds_read", count = 2 : i64, group = 0 : i64} : () -> ()
    "ck.priority"() {level = 2 : i64} : () -> ()
    return
  }

  // A barrier of some groups of waves: a branch on the wave's number, which is the same for all its lanes.
  // CHECK-LABEL: llvm.func @some_waves
  // CHECK: %[[WAVE:.*]] = rocdl.readfirstlane
  // CHECK: %[[FIRST:.*]] = arith.constant 2 : i32
  // CHECK: %[[DISTANCE:.*]] = arith.subi %[[WAVE]], %[[FIRST]] : i32
  // CHECK: %[[COUNT:.*]] = arith.constant 2 : i32
  // CHECK: %[[ARRIVES:.*]] = arith.cmpi ult, %[[DISTANCE]], %[[COUNT]] : i32
  // CHECK: cf.cond_br %[[ARRIVES]], ^bb[[ALONE:[0-9]+]], ^bb[[REST:[0-9]+]]
  // CHECK: ^bb[[ALONE]]:
  // CHECK-NEXT: rocdl.s.barrier
  // CHECK-NEXT: cf.br ^bb[[REST]]
  // CHECK: ^bb[[REST]]:
  // CHECK: rocdl.s.setprio 1
  func.func @some_waves() attributes {ck.waves = 8 : i32} {
    "ck.group_barrier"() {groups = 4 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
    "ck.priority"() {level = 1 : i64} : () -> ()
    return
  }

  // Transcendental functions, element by element, and where the workgroup and the thread are.
  // CHECK-LABEL: llvm.func @positions
  // CHECK-COUNT-2: rocdl.exp2
  // CHECK: rocdl.workgroup.id.y : i32
  func.func @positions(%x: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    %0 = math.exp2 %x : vector<2xf32>
    %1 = "ck.workgroup_id"() {axis = 1 : i64} : () -> i32
    %2 = "ck.thread_coordinate"() {distribution = "d0: 2@y0 16@lane, d1: 4@lane", axis = 1 : i64} : () -> i32
    return
  }
}
