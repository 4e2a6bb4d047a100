// A tile that several waves hold gets a room in LDS for each of them; one that only several lanes of a wave hold does not.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!lds = !ck.lds<[32], f32>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: func.func @by_waves
  // CHECK: "ck.lds_alloc"() {{.*}}rooms = 4 : i64
  func.func @by_waves(%x: f32) attributes {ck.waves = 4 : i32} {
    %t = "ck.splat"(%x) : (f32) -> !ck.tile<[32], f32, "r: 4@wave 2@lane, d0: 32@lane">
    %l = "ck.to_lds"(%t) : (!ck.tile<[32], f32, "r: 4@wave 2@lane, d0: 32@lane">) -> !lds
    return
  }

  // CHECK-LABEL: func.func @by_lanes
  // CHECK: "ck.lds_alloc"
  // CHECK-NOT: rooms
  func.func @by_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
    %t = "ck.splat"(%x) : (f32) -> !ck.tile<[32], f32, "r: 2@lane, d0: 32@lane">
    %l = "ck.to_lds"(%t) : (!ck.tile<[32], f32, "r: 2@lane, d0: 32@lane">) -> !lds
    return
  }
}
