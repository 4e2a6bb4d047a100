// Constants that are compared with a limit of the lane are bits of one number: a row's conditions take no scalar
// registers, whatever they join, and each element one bit, by which it is chosen.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // The limit is held within the 64 bits; what is chosen instead has a register of its own, as the width 1 has.
  // CHECK-LABEL: llvm.func @below
  // CHECK-DAG: llvm.inline_asm "", "=s,0" %{{.*}} : (i32) -> i32
  // CHECK-DAG: llvm.inline_asm "", "=v,0" %{{.*}} : (f32) -> f32
  // CHECK: %[[LEFT:.*]] = llvm.intr.ssub.sat(%{{.*}}, %{{.*}})
  // CHECK: arith.maxsi %[[LEFT]], %{{.*}} : i32
  // CHECK: arith.minsi
  // CHECK: arith.shli %{{.*}}, %{{.*}} : i64
  // CHECK-NOT: arith.cmpi
  // CHECK-NOT: arith.select
  // CHECK-COUNT-8: llvm.call_intrinsic "llvm.amdgcn.sbfe"
  // CHECK-NOT: sbfe
  // CHECK: llvm.return
  func.func @below(%s: vector<8xf32>, %lane: i32, %limit: i32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 32, 33, 34, 35]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %limits = vector.broadcast %limit : i32 to vector<8xi32>
    %inside = arith.cmpi slt, %column, %limits : vector<8xi32>
    %none = arith.constant 0xFF800000 : f32
    %others = vector.broadcast %none : f32 to vector<8xf32>
    %kept = arith.select %inside, %s, %others : vector<8xi1>, vector<8xf32>
    return
  }

  // Joined conditions are joined once, as bits of the columns that fail: both of an "or", either of an "and".
  // CHECK-LABEL: llvm.func @inside_or_first
  // CHECK: %[[END:.*]] = arith.shli %{{.*}}, %{{.*}} : i64
  // CHECK: %[[BEGIN:.*]] = arith.shli %{{.*}}, %{{.*}} : i64
  // CHECK: %[[BEFORE:.*]] = arith.xori %[[BEGIN]], %{{.*}} : i64
  // CHECK: %[[OUTSIDE:.*]] = arith.ori %[[END]], %[[BEFORE]] : i64
  // CHECK: %[[FIRST:.*]] = llvm.intr.sadd.sat
  // CHECK: %[[BEHIND:.*]] = arith.shli %{{.*}}, %{{.*}} : i64
  // CHECK: arith.andi %[[OUTSIDE]], %[[BEHIND]] : i64
  // CHECK-NOT: i1
  // CHECK-COUNT-8: llvm.call_intrinsic "llvm.amdgcn.sbfe"
  // CHECK: llvm.return
  func.func @inside_or_first(%s: vector<8xf32>, %lane: i32, %begin: i32, %end: i32, %first: i32)
      attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 8, 9, 10, 11]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %begins = vector.broadcast %begin : i32 to vector<8xi32>
    %ends = vector.broadcast %end : i32 to vector<8xi32>
    %firsts = vector.broadcast %first : i32 to vector<8xi32>
    %in_front = arith.cmpi slt, %column, %ends : vector<8xi32>
    %behind = arith.cmpi sge, %column, %begins : vector<8xi32>
    %both = arith.andi %in_front, %behind : vector<8xi1>
    %among = arith.cmpi sle, %column, %firsts : vector<8xi32>
    %either = arith.ori %both, %among : vector<8xi1>
    %zeros = arith.constant dense<0.0> : vector<8xf32>
    %kept = arith.select %either, %s, %zeros : vector<8xi1>, vector<8xf32>
    return
  }

  // Of a lane's two rows each has limits of its own, and bits of its own.
  // CHECK-LABEL: llvm.func @rows
  // CHECK: %[[ROW:.*]] = vector.extract %{{.*}}[0]
  // CHECK: llvm.intr.ssub.sat(%[[ROW]], %{{.*}})
  // CHECK-COUNT-4: llvm.call_intrinsic "llvm.amdgcn.sbfe"
  // CHECK: %[[NEXT:.*]] = vector.extract %{{.*}}[1]
  // CHECK: llvm.intr.ssub.sat(%[[NEXT]], %{{.*}})
  // CHECK-COUNT-4: llvm.call_intrinsic "llvm.amdgcn.sbfe"
  // CHECK-NOT: arith.select
  // CHECK: llvm.return
  func.func @rows(%s: vector<4xf32>, %lane: i32, %ends: vector<2xi32>, %begins: vector<2xi32>, %other: f32)
      attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 0, 1, 2, 3]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %end = vector.shuffle %ends, %ends [0, 0, 0, 0, 1, 1, 1, 1] : vector<2xi32>, vector<2xi32>
    %begin = vector.shuffle %begins, %begins [0, 0, 0, 0, 1, 1, 1, 1] : vector<2xi32>, vector<2xi32>
    %in_front = arith.cmpi slt, %column, %end : vector<8xi32>
    %behind = arith.cmpi sge, %column, %begin : vector<8xi32>
    %both = arith.andi %in_front, %behind : vector<8xi1>
    %first = vector.extract_strided_slice %both {offsets = [0], sizes = [4], strides = [1]} : vector<8xi1> to vector<4xi1>
    %second = vector.extract_strided_slice %both {offsets = [4], sizes = [4], strides = [1]} : vector<8xi1> to vector<4xi1>
    %others = vector.broadcast %other : f32 to vector<4xf32>
    %a = arith.select %first, %s, %others : vector<4xi1>, vector<4xf32>
    %b = arith.select %second, %s, %others : vector<4xi1>, vector<4xf32>
    return
  }

  // A position less another one of the lane is a column as well: limits are taken less the difference of the two. What
  // holds for a position of the lane alone holds for all columns or none, and is joined as that.
  // CHECK-LABEL: llvm.func @distances
  // CHECK: %[[APART:.*]] = arith.subi %{{.*}}, %{{.*}} : i32
  // CHECK: llvm.intr.ssub.sat(%{{.*}}, %[[APART]])
  // CHECK: %[[AGAIN:.*]] = arith.subi %{{.*}}, %{{.*}} : i32
  // CHECK: llvm.intr.ssub.sat(%{{.*}}, %[[AGAIN]])
  // CHECK: %[[BEGIN:.*]] = arith.shli %{{.*}}, %{{.*}} : i64
  // CHECK: %[[END:.*]] = arith.shli %{{.*}}, %{{.*}} : i64
  // CHECK: %[[BITS:.*]] = arith.shli %{{.*}}, %{{.*}} : i64
  // CHECK: %[[FIRST:.*]] = arith.shli %[[BITS]], %{{.*}} : i64
  // CHECK: %[[ALL:.*]] = arith.shrsi %[[FIRST]], %{{.*}} : i64
  // CHECK: arith.andi %[[END]], %[[ALL]] : i64
  // CHECK-NOT: i1
  // CHECK-COUNT-8: llvm.call_intrinsic "llvm.amdgcn.sbfe"
  // CHECK: llvm.return
  func.func @distances(%s: vector<8xf32>, %row: i32, %lane: i32, %begin: i32, %end: i32, %first: i32)
      attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 8, 9, 10, 11]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %zero = arith.constant dense<0> : vector<8xi32>
    %rows = vector.broadcast %row : i32 to vector<8xi32>
    %position = arith.addi %rows, %zero overflow<nsw> : vector<8xi32>
    %distance = arith.subi %column, %position : vector<8xi32>
    %begins = vector.broadcast %begin : i32 to vector<8xi32>
    %ends = vector.broadcast %end : i32 to vector<8xi32>
    %firsts = vector.broadcast %first : i32 to vector<8xi32>
    %behind = arith.cmpi sge, %distance, %begins : vector<8xi32>
    %in_front = arith.cmpi slt, %distance, %ends : vector<8xi32>
    %is_first = arith.cmpi slt, %position, %firsts : vector<8xi32>
    %before = arith.ori %in_front, %is_first : vector<8xi1>
    %both = arith.andi %behind, %before : vector<8xi1>
    %zeros = arith.constant dense<0.0> : vector<8xf32>
    %kept = arith.select %both, %s, %zeros : vector<8xi1>, vector<8xf32>
    return
  }

  // A position that is another one in each element leaves distances that are compared one by one.
  // CHECK-LABEL: llvm.func @distances_of_several
  // CHECK-NOT: sbfe
  // CHECK: arith.cmpi sge
  // CHECK-NOT: sbfe
  // CHECK: llvm.return
  func.func @distances_of_several(%s: vector<8xf32>, %row: i32, %lane: i32, %begin: i32)
      attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 0, 1, 2, 3]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %apart = arith.constant dense<[0, 0, 0, 0, 16, 16, 16, 16]> : vector<8xi32>
    %rows = vector.broadcast %row : i32 to vector<8xi32>
    %position = arith.addi %rows, %apart overflow<nsw> : vector<8xi32>
    %distance = arith.subi %column, %position : vector<8xi32>
    %begins = vector.broadcast %begin : i32 to vector<8xi32>
    %behind = arith.cmpi sge, %distance, %begins : vector<8xi32>
    %zeros = arith.constant dense<0.0> : vector<8xf32>
    %kept = arith.select %behind, %s, %zeros : vector<8xi1>, vector<8xf32>
    return
  }

  // Few elements are compared one by one.
  // CHECK-LABEL: llvm.func @few
  // CHECK-NOT: sbfe
  // CHECK-COUNT-4: arith.cmpi slt
  // CHECK: llvm.return
  func.func @few(%s: vector<4xf32>, %lane: i32, %limit: i32, %other: f32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3]> : vector<4xi32>
    %lanes = vector.broadcast %lane : i32 to vector<4xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<4xi32>
    %limits = vector.broadcast %limit : i32 to vector<4xi32>
    %inside = arith.cmpi slt, %column, %limits : vector<4xi32>
    %others = vector.broadcast %other : f32 to vector<4xf32>
    %kept = arith.select %inside, %s, %others : vector<4xi1>, vector<4xf32>
    return
  }
}
