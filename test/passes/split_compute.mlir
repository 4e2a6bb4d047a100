// Tile arithmetic becomes arithmetic on vectors of one thread's registers.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!tile = !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
!row = !ck.tile<[16], f32, "r: 16@lane.1, d0: 4@lane.0 4@y0">

// The scalar code of a map once a vector; a scalar from outside is the same in all lanes and registers.
// CHECK-LABEL: func.func @map
// CHECK-SAME: (%[[X:.*]]: f32, %[[Y:.*]]: f32)
// CHECK: %[[T:.*]] = vector.broadcast %[[X]] : f32 to vector<4xf32>
// CHECK: %[[S:.*]] = vector.broadcast %[[Y]] : f32 to vector<4xf32>
// CHECK: arith.mulf %[[T]], %[[S]] fastmath<contract> : vector<4xf32>
// CHECK: arith.constant dense<2.000000e+00> : vector<4xf32>
// CHECK-NOT: ck.
func.func @map(%x: f32, %y: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !tile
  %0 = "ck.map"() ({
    %a = "ck.element"(%t) : (!tile) -> f32
    %b = arith.mulf %a, %y fastmath<contract> : f32
    %two = arith.constant 2.0 : f32
    %c = arith.addf %b, %two : f32
    "ck.yield"(%c) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !tile
  return
}

// A condition is a vector of i1, a constant one too.
// CHECK-LABEL: func.func @select
// CHECK: arith.cmpf olt, {{.*}} : vector<4xf32>
// CHECK: arith.constant dense<true> : vector<4xi1>
// CHECK: arith.select {{.*}} : vector<4xi1>, vector<4xf32>
func.func @select(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !tile
  %0 = "ck.map"() ({
    %a = "ck.element"(%t) : (!tile) -> f32
    %c = arith.cmpf olt, %a, %x : f32
    %true = arith.constant true
    %d = arith.andi %c, %true : i1
    %e = arith.select %d, %a, %x : f32
    "ck.yield"(%e) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !tile
  return
}

// Casts are conversions of vectors.
// CHECK-LABEL: func.func @cast
// CHECK: "ck.convert"(%{{.*}}) : (vector<4xf32>) -> vector<4xbf16>
func.func @cast(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !tile
  %0 = "ck.cast"(%t) : (!tile) -> !ck.tile<[16, 16], bf16, "d0: 4@lane 4@y0, d1: 16@lane">
  return
}

// Coordinates: where register 0 lies, plus what the registers differ by.
// CHECK-LABEL: func.func @coordinates
// CHECK: %[[BASE:.*]] = "ck.thread_coordinate"() {axis = 0 : i64, distribution = "d0: 2@y0 4@lane 2@y1, d1: 16@lane"}
// CHECK: vector.broadcast %[[BASE]] : i32 to vector<4xi32>
// CHECK: arith.constant dense<[0, 1, 8, 9]> : vector<4xi32>
func.func @coordinates() attributes {ck.waves = 1 : i32} {
  %0 = "ck.coordinates"() {axis = 0 : i64} : () -> !ck.tile<[16, 16], i32, "d0: 2@y0 4@lane 2@y1, d1: 16@lane">
  return
}

// Broadcasting repeats registers: along lanes nothing happens, along registers each element is spread.
// CHECK-LABEL: func.func @broadcast_over_lanes
// CHECK: %[[V:.*]] = vector.broadcast %{{.*}} : f32 to vector<4xf32>
// CHECK-NEXT: arith.addf %[[V]], %{{.*}} : vector<4xf32>
func.func @broadcast_over_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !row
  %0 = "ck.broadcast"(%t) {axis = 1 : i64} : (!row) -> !tile
  %1 = "ck.map"() ({
    %a = "ck.element"(%0) : (!tile) -> f32
    %b = arith.addf %a, %a : f32
    "ck.yield"(%b) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !tile
  return
}

// CHECK-LABEL: func.func @broadcast_over_registers
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 0, 0, 0, 1, 1, 1, 1] : vector<2xf32>, vector<2xf32>
func.func @broadcast_over_registers(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[128], f32, "d0: 2@y0 64@lane">
  %0 = "ck.broadcast"(%t) {axis = 1 : i64} : (!ck.tile<[128], f32, "d0: 2@y0 64@lane">) -> !ck.tile<[128, 4], f32, "d0: 2@y0 64@lane, d1: 4@y1">
  return
}

// A slice is a selection of registers.
// CHECK-LABEL: func.func @slice
// CHECK: %[[LOADED:.*]] = "ck.load_fragment"
// CHECK: vector.extract_strided_slice %[[LOADED]] {offsets = [2], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
// CHECK: "ck.store_fragment"{{.*}}registers = array<i32: 0, 1>
func.func @slice(%p: !llvm.ptr<1>) attributes {ck.waves = 1 : i32} {
  %o = arith.constant 0 : i32
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 4">
  %w = "ck.make_window"(%v, %o, %o) : (!ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 4">, i32, i32) -> !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 4", [64, 4]>
  %t = "ck.load"(%w) : (!ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 4", [64, 4]>) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  %0 = "ck.slice"(%t) {axis = 1 : i64, start = 2 : i64} : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[64, 2], f32, "d0: 64@lane, d1: 2@y0">
  %n = "ck.make_window"(%v, %o, %o) : (!ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 4">, i32, i32) -> !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 4", [64, 2]>
  "ck.store"(%0, %n) : (!ck.tile<[64, 2], f32, "d0: 64@lane, d1: 2@y0">, !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[64, 4], strides=[4, 1]); view(d0, d1) align 4", [64, 2]>) -> ()
  return
}

// Redistribution within threads permutes registers, within rows of 16 lanes one lane hands on what all of them want, across
// other threads it goes through LDS.
// CHECK-LABEL: func.func @redistribute_registers
// CHECK-NOT: ck.lds_alloc
// CHECK: vector.shuffle {{.*}} [0, 2, 1, 3] : vector<4xf32>
// CHECK-NOT: ck.lds_alloc
// CHECK: return
func.func @redistribute_registers(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[128, 2], f32, "d0: 2@y0 64@lane, d1: 2@y1">
  %0 = "ck.redistribute"(%t) : (!ck.tile<[128, 2], f32, "d0: 2@y0 64@lane, d1: 2@y1">) -> !ck.tile<[128, 2], f32, "d0: 2@y1 64@lane, d1: 2@y0">
  return
}

// CHECK-LABEL: func.func @redistribute_rows
// CHECK-NOT: ck.lds_alloc
// CHECK: %[[OWN:.*]] = vector.broadcast %{{.*}} : f32 to vector<1xf32>
// CHECK: "ck.row_lane"(%[[OWN]]) {lane = 0 : i64} : (vector<1xf32>) -> vector<1xf32>
// CHECK: "ck.row_lane"(%[[OWN]]) {lane = 1 : i64}
// CHECK-COUNT-5: "ck.row_lane"
// CHECK: "ck.row_lane"(%[[OWN]]) {lane = 7 : i64}
// CHECK-NOT: ck.
// CHECK: return
func.func @redistribute_rows(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[16], f32, "r: 4@lane.1, d0: 2@lane.0 8@lane.2">
  %0 = "ck.redistribute"(%t) : (!ck.tile<[16], f32, "r: 4@lane.1, d0: 2@lane.0 8@lane.2">) -> !ck.tile<[16], f32, "r: 32@lane.1, d0: 2@lane.0 8@y0">
  return
}

// What lies in another row of lanes is not handed on.
// CHECK-LABEL: func.func @redistribute_between_rows
// CHECK-NOT: ck.row_lane
// CHECK: "ck.lds_read"
func.func @redistribute_between_rows(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !ck.tile<[32], f32, "r: 2@lane.1, d0: 2@lane.0 16@lane.2">
  %0 = "ck.redistribute"(%t) : (!ck.tile<[32], f32, "r: 2@lane.1, d0: 2@lane.0 16@lane.2">) -> !ck.tile<[32], f32, "r: 16@lane.1, d0: 4@lane.0 8@y0">
  return
}

// CHECK-LABEL: func.func @redistribute_lanes
// CHECK: "ck.lds_alloc"() {layout = "lengths 16x16 order 0,1 pitch 16", name = "redistribute0"}
// CHECK-COUNT-4: "ck.lds_write"
// CHECK: "ck.lds_read"{{.*}} -> vector<4xf32>
func.func @redistribute_lanes(%x: f32) attributes {ck.waves = 1 : i32} {
  %t = "ck.splat"(%x) : (f32) -> !tile
  %0 = "ck.redistribute"(%t) : (!tile) -> !ck.tile<[16, 16], f32, "d0: 16@lane, d1: 4@lane 4@y0">
  return
}
