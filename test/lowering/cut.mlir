// A wave asks whether a lane has an element beyond its row's bound, and branches around the selections where none has;
// comparisons stand before the selections, in fours.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx950"} {
  // CHECK-LABEL: llvm.func @behind
  // CHECK-SAME: passthrough = [{{.*}}"noimplicitfloat", ["amdgpu-ieee", "false"]]
  // CHECK: %[[LIMIT:.*]] = llvm.intr.ssub.sat(%{{.*}}, %{{.*}}) : (i32, i32) -> i32
  // CHECK: %[[LAST:.*]] = arith.constant 9 : i32
  // CHECK: %[[CUT:.*]] = arith.cmpi sle, %[[LIMIT]], %[[LAST]] : i32
  // CHECK: %[[LANES:.*]] = rocdl.ballot %[[CUT]] : i64
  // CHECK: %[[SOME:.*]] = arith.cmpi ne, %[[LANES]], %{{.*}} : i64
  // CHECK: cf.cond_br %[[SOME]], ^[[CHOOSE:.*]], ^[[REST:.*]](%[[VECTOR:.*]] : vector<6xf32>)
  // CHECK: ^[[CHOOSE]]:
  // CHECK-COUNT-4: arith.cmpi sgt, %[[LIMIT]]
  // CHECK: llvm.inline_asm {{.*}}"=v,0,s,s,s,s"
  // CHECK-COUNT-4: arith.select
  // CHECK-COUNT-2: arith.cmpi sgt, %[[LIMIT]]
  // CHECK: llvm.inline_asm {{.*}}"=v,0,s,s"
  // CHECK-COUNT-2: arith.select
  // CHECK: cf.br ^[[REST]](%{{.*}} : vector<6xf32>)
  func.func @behind(%v: vector<6xf32>, %b: vector<1xi32>, %lane: i32) attributes {ck.waves = 1 : i32, ck.in_pieces} {
    %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1, 4, 5, 8, 9>, other = 0.0 : f32}
      : (vector<6xf32>, vector<1xi32>, i32) -> vector<6xf32>
    return
  }

  // With a bound each every one is asked; in front of it what lies before is cut.
  // CHECK-LABEL: llvm.func @front
  // CHECK-COUNT-2: llvm.intr.ssub.sat
  // CHECK-COUNT-2: arith.cmpi sgt
  // CHECK: arith.ori
  // CHECK: rocdl.ballot
  // CHECK-COUNT-2: arith.cmpi sle
  func.func @front(%v: vector<2xf32>, %b: vector<2xi32>, %lane: i32) attributes {ck.waves = 1 : i32} {
    %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1>, front, other = 0.0 : f32}
      : (vector<2xf32>, vector<2xi32>, i32) -> vector<2xf32>
    return
  }

  // Elements that share registers are chosen one by one.
  // CHECK-LABEL: llvm.func @halves
  // CHECK: cf.cond_br %{{.*}}, ^[[OWN:.*]], ^[[JOINED:.*]](%{{.*}} : vector<2xf16>)
  // CHECK: ^[[OWN]]:
  // CHECK-NOT: inline_asm
  // CHECK-COUNT-2: arith.select {{.*}} : f16
  // CHECK: cf.br ^[[JOINED]](%{{.*}} : vector<2xf16>)
  func.func @halves(%v: vector<2xf16>, %b: vector<1xi32>, %lane: i32) attributes {ck.waves = 1 : i32} {
    %0 = "ck.cut_vector"(%v, %b, %lane) {columns = array<i32: 0, 1>, other = 0.0 : f16}
      : (vector<2xf16>, vector<1xi32>, i32) -> vector<2xf16>
    return
  }
}
