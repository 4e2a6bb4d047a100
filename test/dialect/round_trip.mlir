// Every operation and type of the dialect prints and parses back as it was.

// RUN: ckmlir-opt %s | ckmlir-opt | filecheck %s
// RUN: ckmlir-opt %s > %t.once
// RUN: ckmlir-opt %t.once | diff %t.once -

!acc = !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
!operand = !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
!unknown = !ck.tile<[16, 16], f16, "?">
!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8", [16, 16]>
!lds = !ck.lds<[16, 16], f16>

// CHECK-LABEL: func.func @tiles
func.func @tiles(%pointer: !llvm.ptr<1>, %m: i32, %pitch: i32, %row: i32, %scale: f32) {
  // CHECK: "ck.make_view"(%{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr<1>, i32, i32) -> !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=16); view(d2, d1) align 8">
  %view = "ck.make_view"(%pointer, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
  // CHECK: "ck.make_window"{{.*}} -> !ck.window<f16, "global", "{{.*}}", [16, 16]>
  %window = "ck.make_window"(%view, %row, %row) : (!view, i32, i32) -> !window
  // CHECK: "ck.move_window"(%{{.*}}, %{{.*}}, %{{.*}}) : (!ck.window<
  %next = "ck.move_window"(%window, %row, %row) : (!window, i32, i32) -> !window
  // CHECK: "ck.load"{{.*}} -> !ck.tile<[16, 16], f16, "?">
  %loaded = "ck.load"(%window) : (!window) -> !unknown
  // CHECK: "ck.to_lds"{{.*}} -> !ck.lds<[16, 16], f16>
  %lds = "ck.to_lds"(%loaded) : (!unknown) -> !lds
  // CHECK: "ck.from_lds"{{.*}} -> !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
  %operand = "ck.from_lds"(%lds) : (!lds) -> !operand
  // CHECK: "ck.splat"(%{{.*}}) : (f32) -> !ck.tile<[16, 16], f32, "d0: 4@lane 4@y0, d1: 16@lane">
  %zero = "ck.splat"(%scale) : (f32) -> !acc
  // CHECK: "ck.mma"{{.*}} {instruction = "f32.16x16x16f16 k_pack=1", {{.*}}} : (!ck.tile<
  %product = "ck.mma"(%operand, %operand, %zero) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!operand, !operand, !acc) -> !acc
  // CHECK: "ck.map"() ({
  // CHECK-NEXT: "ck.element"
  // CHECK: "ck.yield"
  %scaled = "ck.map"() ({
    %element = "ck.element"(%product) : (!acc) -> f32
    %result = arith.mulf %element, %scale : f32
    "ck.yield"(%result) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !acc
  // CHECK: "ck.reduce"(%{{.*}}) ({
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32)
  %sum = "ck.reduce"(%scaled) ({
  ^bb0(%left: f32, %right: f32):
    %result = arith.addf %left, %right : f32
    "ck.yield"(%result) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!acc) -> !ck.tile<[16], f32, "r: 16@lane.1, d0: 4@lane.0 4@y0">
  // CHECK: "ck.reduce"(%{{.*}}, %{{.*}}) ({
  %pair:2 = "ck.reduce"(%scaled, %zero) ({
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    "ck.yield"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (f32, f32) -> ()
  }) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (!acc, !acc) -> (!ck.tile<[16], f32, "?">, !ck.tile<[16], f32, "?">)
  // CHECK: "ck.scan"(%{{.*}}) ({
  // CHECK: }) {axis = 1 : i64, identity = [0.000000e+00 : f32], {{.*}}} : (!ck.tile<[16, 16], f32, {{.*}}>) -> !ck.tile<[16, 16], f32, {{.*}}>
  %before = "ck.scan"(%scaled) ({
  ^bb0(%left: f32, %right: f32):
    %result = arith.addf %left, %right : f32
    "ck.yield"(%result) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, identity = [0.0 : f32], operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>}
    : (!acc) -> !acc
  // CHECK: "ck.broadcast"
  %again = "ck.broadcast"(%sum) {axis = 1 : i64} : (!ck.tile<[16], f32, "r: 16@lane.1, d0: 4@lane.0 4@y0">) -> !acc
  // CHECK: "ck.rescale"(%{{.*}}, %{{.*}})
  %rescaled = "ck.rescale"(%again, %sum) : (!acc, !ck.tile<[16], f32, "r: 16@lane.1, d0: 4@lane.0 4@y0">) -> !acc
  %bound = arith.constant 3 : i32
  // CHECK: "ck.cut"(%{{.*}}, %{{.*}}) {front, other = 0xFF800000 : f32}
  %bounds = "ck.splat"(%bound) : (i32) -> !ck.tile<[16], i32, "r: 16@lane.1, d0: 4@lane.0 4@y0">
  %cut = "ck.cut"(%again, %bounds) {front, other = 0xFF800000 : f32}
    : (!acc, !ck.tile<[16], i32, "r: 16@lane.1, d0: 4@lane.0 4@y0">) -> !acc
  // CHECK: "ck.uniform"(%{{.*}}) : (!ck.tile<[1], f32, "r: 64@lane, d0: 1">) -> f32
  %only = "ck.splat"(%scale) : (f32) -> !ck.tile<[1], f32, "r: 64@lane, d0: 1">
  %scalar = "ck.uniform"(%only) : (!ck.tile<[1], f32, "r: 64@lane, d0: 1">) -> f32
  // CHECK: "ck.cast"
  %half = "ck.cast"(%again) : (!acc) -> !ck.tile<[16, 16], f16, "d0: 4@lane 4@y0, d1: 16@lane">
  // CHECK: "ck.redistribute"
  %moved = "ck.redistribute"(%half) : (!ck.tile<[16, 16], f16, "d0: 4@lane 4@y0, d1: 16@lane">) -> !operand
  // CHECK: "ck.slice"
  %part = "ck.slice"(%zero) {axis = 0 : i64, start = 0 : i64} : (!acc) -> !ck.tile<[8, 16], f32, "?">
  // CHECK: "ck.insert"{{.*}} {axis = 0 : i64, start = 8 : i64}
  %replaced = "ck.insert"(%part, %zero) {axis = 0 : i64, start = 8 : i64} : (!ck.tile<[8, 16], f32, "?">, !acc) -> !acc
  // CHECK: "ck.coordinates"
  %columns = "ck.coordinates"() {axis = 1 : i64} : () -> !ck.tile<[16, 16], i32, "?">
  // CHECK: "ck.store"
  "ck.store"(%moved, %window) : (!operand, !window) -> ()
  // CHECK: "ck.atomic_update"{{.*}} {kind = "add"}
  "ck.atomic_update"(%moved, %window) {kind = "add"} : (!operand, !window) -> ()
  %zeros = arith.constant 0 : i32
  %indices = "ck.splat"(%zeros) : (i32) -> !ck.tile<[16], i32, "r: 4@lane.0, d0: 16@lane.1">
  // CHECK: "ck.gather"{{.*}} {axis = 0 : i64}
  %gathered = "ck.gather"(%window, %indices) {axis = 0 : i64} : (!window, !ck.tile<[16], i32, "r: 4@lane.0, d0: 16@lane.1">) -> !operand
  // CHECK: "ck.scatter"{{.*}} {axis = 0 : i64}
  "ck.scatter"(%gathered, %window, %indices) {axis = 0 : i64} : (!operand, !window, !ck.tile<[16], i32, "r: 4@lane.0, d0: 16@lane.1">) -> ()
  // CHECK: "ck.atomic_scatter"{{.*}} {axis = 0 : i64, kind = "add"}
  "ck.atomic_scatter"(%gathered, %window, %indices) {axis = 0 : i64, kind = "add"} : (!operand, !window, !ck.tile<[16], i32, "r: 4@lane.0, d0: 16@lane.1">) -> ()
  // CHECK: "ck.copy_to_lds"{{.*}} -> !ck.lds<[16, 16], f16>
  %copied = "ck.copy_to_lds"(%window) : (!window) -> !lds
  return
}

// CHECK-LABEL: func.func @fragments
func.func @fragments(%pointer: !llvm.ptr<1>, %m: i32, %pitch: i32, %row: i32, %c: vector<4xf32>) {
  %view = "ck.make_view"(%pointer, %m, %pitch) : (!llvm.ptr<1>, i32, i32) -> !view
  %window = "ck.make_window"(%view, %row, %row) : (!view, i32, i32) -> !window
  // CHECK: "ck.load_fragment"{{.*}} {distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>}
  %a = "ck.load_fragment"(%window) {distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!window) -> vector<4xf16>
  // CHECK: "ck.store_fragment"
  "ck.store_fragment"(%a, %window) {distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !window) -> ()
  // CHECK: "ck.atomic_fragment"
  "ck.atomic_fragment"(%a, %window) {kind = "max", distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !window) -> ()
  // CHECK: "ck.gather_fragment"{{.*}} {axis = 0 : i64, distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>}
  %rows = "ck.gather_fragment"(%window, %row) {axis = 0 : i64, distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!window, i32) -> vector<4xf16>
  // CHECK: "ck.scatter_fragment"
  "ck.scatter_fragment"(%rows, %window, %row) {axis = 0 : i64, distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !window, i32) -> ()
  // CHECK: "ck.atomic_scatter_fragment"{{.*}} {axis = 0 : i64, distribution = "d0: 16@lane, d1: 4@lane 4@y0", kind = "add", registers = array<i32: 0, 1, 2, 3>}
  "ck.atomic_scatter_fragment"(%rows, %window, %row) {axis = 0 : i64, kind = "add", distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !window, i32) -> ()
  // CHECK: "ck.lds_alloc"() {layout = "lengths 16x16 order 0,1 pitch 16 swizzle chunk 4 shift 0 mask 3", name = "a", offset = 512 : i64}
  %lds = "ck.lds_alloc"() {layout = "lengths 16x16 order 0,1 pitch 16 swizzle chunk 4 shift 0 mask 3", name = "a", offset = 512 : i64} : () -> !lds
  // CHECK: "ck.lds_write"
  "ck.lds_write"(%a, %lds) {distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
  // CHECK: "ck.lds_read"
  %b = "ck.lds_read"(%lds) {distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1>} : (!lds) -> vector<2xf16>
  // CHECK: "ck.lds_read"{{.*}} {distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>, transposed}
  %t = "ck.lds_read"(%lds) {distribution = "d0: 16@lane, d1: 4@lane 4@y0", registers = array<i32: 0, 1, 2, 3>, transposed} : (!lds) -> vector<4xf16>
  // CHECK: "ck.copy_fragment"{{.*}} {distribution = "d0: 2@y0 8@lane, d1: 8@lane 2@y1", registers = array<i32: 0, 1>}
  "ck.copy_fragment"(%window, %lds) {distribution = "d0: 2@y0 8@lane, d1: 8@lane 2@y1", registers = array<i32: 0, 1>} : (!window, !lds) -> ()
  // CHECK: "ck.mfma"{{.*}} {instruction = "f32.16x16x16f16", {{.*}}}
  %d = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  // CHECK: "ck.exchange"(%{{.*}}) {equal_below, mask = 4 : i64}
  %e = "ck.exchange"(%d) {mask = 4 : i64, equal_below} : (vector<4xf32>) -> vector<4xf32>
  // CHECK: "ck.half"(%{{.*}}) : (vector<4xf32>) -> vector<4xf32>
  %low = "ck.half"(%d) : (vector<4xf32>) -> vector<4xf32>
  // CHECK: "ck.half"(%{{.*}}) {upper} : (vector<4xf32>) -> vector<4xf32>
  %high = "ck.half"(%d) {upper} : (vector<4xf32>) -> vector<4xf32>
  // CHECK: "ck.row_lane"(%{{.*}}) {lane = 5 : i64} : (vector<4xf32>) -> vector<4xf32>
  %handed_on = "ck.row_lane"(%d) {lane = 5 : i64} : (vector<4xf32>) -> vector<4xf32>
  // CHECK: %{{.*}} = "ck.first_lane"(%{{.*}}) : (f32) -> f32
  %e0 = vector.extract %e[0] : f32 from vector<4xf32>
  %first = "ck.first_lane"(%e0) : (f32) -> f32
  // CHECK: %{{.*}} = "ck.first_lane"(%{{.*}}) {copies} : (f32) -> f32
  %copies = "ck.first_lane"(%e0) {copies} : (f32) -> f32
  // CHECK: "ck.rescale_vector"(%{{.*}}, %{{.*}}) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  %rescaled = "ck.rescale_vector"(%d, %e) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  // CHECK: "ck.cut_vector"(%{{.*}}, %{{.*}}, %{{.*}}) {columns = array<i32: 0, 1, 2, 3>, other = 0.000000e+00 : f32}
  %at = arith.constant dense<2> : vector<1xi32>
  %zero = arith.constant 0 : i32
  %cut = "ck.cut_vector"(%d, %at, %zero) {columns = array<i32: 0, 1, 2, 3>, other = 0.0 : f32}
    : (vector<4xf32>, vector<1xi32>, i32) -> vector<4xf32>
  // CHECK: "ck.convert"
  %f = "ck.convert"(%e) : (vector<4xf32>) -> vector<4xbf16>
  // CHECK: "ck.thread_coordinate"
  %g = "ck.thread_coordinate"() {distribution = "d0: 16@lane, d1: 4@lane 4@y0", axis = 1 : i64} : () -> i32
  // CHECK: "ck.workgroup_id"
  %h = "ck.workgroup_id"() {axis = 2 : i64} : () -> i32
  // CHECK: "ck.barrier"
  "ck.barrier"() : () -> ()
  // CHECK: "ck.wait"() {lds = 0 : i64, vector_memory = 63 : i64}
  "ck.wait"() {lds = 0 : i64, vector_memory = 63 : i64} : () -> ()
  // CHECK: "ck.sched_barrier"
  "ck.sched_barrier"() {mask = "none"} : () -> ()
  // CHECK: "ck.sched_group_barrier"
  "ck.sched_group_barrier"() {mask = "ds_read", count = 2 : i64, group = 0 : i64} : () -> ()
  // CHECK: "ck.group_barrier"() {first = 1 : i64, groups = 2 : i64, last = 1 : i64}
  "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
  // CHECK: "ck.priority"
  "ck.priority"() {level = 3 : i64} : () -> ()
  // CHECK: "ck.release"() : () -> ()
  "ck.release"() : () -> ()
  // CHECK: "ck.set_flag"(%{{.*}}, %{{.*}}) : (i32, !llvm.ptr<1>) -> ()
  "ck.set_flag"(%row, %pointer) : (i32, !llvm.ptr<1>) -> ()
  // CHECK: "ck.await_flag"(%{{.*}}, %{{.*}}) : (i32, !llvm.ptr<1>) -> ()
  "ck.await_flag"(%row, %pointer) : (i32, !llvm.ptr<1>) -> ()
  return
}

!rows = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); view(d0, d1) align 8", [8, 64]>
!ids = !ck.tile<[8], i32, "r: 8@lane.1, d0: 8@lane.0">
!wide = !ck.tile<[8, 64], f16, "d0: 8@lane, d1: 8@lane 8@y0">

// CHECK-LABEL: func.func @by_index
func.func @by_index(%window: !rows, %row: i32, %x: vector<8xf16>) {
  %ids = "ck.splat"(%row) : (i32) -> !ids
  // CHECK: "ck.gather"(%{{.*}}, %{{.*}}) {axis = 0 : i64} : (!ck.window<{{.*}} -> !ck.tile<[8, 64], f16, "d0: 8@lane, d1: 8@lane 8@y0">
  %tile = "ck.gather"(%window, %ids) {axis = 0 : i64} : (!rows, !ids) -> !wide
  // CHECK: "ck.scatter"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64}
  "ck.scatter"(%tile, %window, %ids) {axis = 0 : i64} : (!wide, !rows, !ids) -> ()
  // CHECK: "ck.insert"(%{{.*}}, %{{.*}}) {axis = 1 : i64, start = 0 : i64}
  %half = "ck.splat"(%row) : (i32) -> !ck.tile<[8, 32], i32, "?">
  %whole = "ck.splat"(%row) : (i32) -> !ck.tile<[8, 64], i32, "?">
  %both = "ck.insert"(%half, %whole) {axis = 1 : i64, start = 0 : i64} : (!ck.tile<[8, 32], i32, "?">, !ck.tile<[8, 64], i32, "?">) -> !ck.tile<[8, 64], i32, "?">
  // CHECK: "ck.copy_to_lds"{{.*}} -> !ck.lds<[8, 64], f16>
  %copied = "ck.copy_to_lds"(%window) : (!rows) -> !ck.lds<[8, 64], f16>
  // CHECK: "ck.copy_fragment"(%{{.*}}, %{{.*}}) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>}
  %lds = "ck.lds_alloc"() {layout = "lengths 8x64 order 0,1 pitch 64"} : () -> !ck.lds<[8, 64], f16>
  "ck.copy_fragment"(%window, %lds) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!rows, !ck.lds<[8, 64], f16>) -> ()
  // CHECK: "ck.gather_fragment"(%{{.*}}, %{{.*}}) {axis = 0 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0"
  %one = arith.addi %row, %row : i32
  %y = "ck.gather_fragment"(%window, %one) {axis = 0 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!rows, i32) -> vector<8xf16>
  // CHECK: "ck.scatter_fragment"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64
  "ck.scatter_fragment"(%x, %window, %one) {axis = 0 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (vector<8xf16>, !rows, i32) -> ()
  return
}

!table = !ck.lds<[16, 64], f32>
!updates = !ck.tile<[8, 64], f32, "d0: 8@lane, d1: 8@lane 8@y0">

// CHECK-LABEL: func.func @lds_by_index
func.func @lds_by_index(%table: !table, %updates: !updates, %ids: !ids, %row: i32, %x: vector<1xf32>) {
  // CHECK: "ck.lds_update"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64, kind = "add"} : (!ck.tile<[8, 64], f32, {{.*}}>, !ck.lds<[16, 64], f32>, !ck.tile<[8], i32, {{.*}}>) -> ()
  "ck.lds_update"(%updates, %table, %ids) {axis = 0 : i64, kind = "add"} : (!updates, !table, !ids) -> ()
  // CHECK: "ck.lds_update"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64, kind = "max"} : ({{.*}}) -> !ck.tile<[8, 64], f32, "d0: 8@lane, d1: 8@lane 8@y0">
  %before = "ck.lds_update"(%updates, %table, %ids) {axis = 0 : i64, kind = "max"} : (!updates, !table, !ids) -> !updates
  // CHECK: "ck.lds_gather"(%{{.*}}, %{{.*}}) {axis = 0 : i64} : (!ck.lds<[16, 64], f32>, {{.*}}) -> !ck.tile<[8, 64], f32, "d0: 8@lane, d1: 8@lane 8@y0">
  %tile = "ck.lds_gather"(%table, %ids) {axis = 0 : i64} : (!table, !ids) -> !updates
  // CHECK: "ck.lds_update_fragment"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0", kind = "max", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[16, 64], f32>, i32) -> ()
  "ck.lds_update_fragment"(%x, %table, %row) {axis = 0 : i64, kind = "max", distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0>} : (vector<1xf32>, !table, i32) -> ()
  // CHECK: "ck.lds_update_fragment"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0", follows, kind = "max", registers = array<i32: 1>}
  "ck.lds_update_fragment"(%x, %table, %row) {axis = 0 : i64, kind = "max", distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 1>, follows} : (vector<1xf32>, !table, i32) -> ()
  // CHECK: "ck.lds_gather_fragment"(%{{.*}}, %{{.*}}) {axis = 0 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!ck.lds<[16, 64], f32>, i32) -> vector<4xf32>
  %y = "ck.lds_gather_fragment"(%table, %row) {axis = 0 : i64, distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 0, 1, 2, 3>} : (!table, i32) -> vector<4xf32>
  return
}

// CHECK-LABEL: func.func @repacked
func.func @repacked(%bytes: !ck.tile<[3, 256], i8, "d0: 3@y1, d1: 64@lane 4@y0">, %vector: vector<24xi8>) {
  // CHECK: "ck.repack"(%{{.*}}) {after = 1 : i64, before = 0 : i64, format = "fp6"} : (!ck.tile<[3, 256], i8, "d0: 3@y1, d1: 64@lane 4@y0">) -> !ck.tile<[4, 192], i8, "d0: 4@y0, d1: 64@lane 3@y1">
  %turned = "ck.repack"(%bytes) {format = "fp6", before = 0, after = 1} : (!ck.tile<[3, 256], i8, "d0: 3@y1, d1: 64@lane 4@y0">) -> !ck.tile<[4, 192], i8, "d0: 4@y0, d1: 64@lane 3@y1">
  // CHECK: "ck.repack_fragment"(%{{.*}}) {format = "fp6"} : (vector<24xi8>) -> vector<24xi8>
  %four = "ck.repack_fragment"(%vector) {format = "fp6"} : (vector<24xi8>) -> vector<24xi8>
  return
}

// CHECK-LABEL: func.func @packed
func.func @packed(%bytes: !ck.tile<[64, 3], i8, "d0: 64@lane, d1: 3@y0">, %vector: vector<3xi8>) {
  // CHECK: "ck.unpack"(%{{.*}}) {format = "fp6"} : (!ck.tile<[64, 3], i8, "d0: 64@lane, d1: 3@y0">) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  %numbers = "ck.unpack"(%bytes) {format = "fp6"} : (!ck.tile<[64, 3], i8, "d0: 64@lane, d1: 3@y0">) -> !ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">
  // CHECK: "ck.pack"(%{{.*}}) {format = "fp4"} : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[64, 2], i8, "d0: 64@lane, d1: 2@y0">
  %fewer = "ck.pack"(%numbers) {format = "fp4"} : (!ck.tile<[64, 4], f32, "d0: 64@lane, d1: 4@y0">) -> !ck.tile<[64, 2], i8, "d0: 64@lane, d1: 2@y0">
  // CHECK: "ck.unpack_fragment"(%{{.*}}) {format = "fp6"} : (vector<3xi8>) -> vector<4xf32>
  %four = "ck.unpack_fragment"(%vector) {format = "fp6"} : (vector<3xi8>) -> vector<4xf32>
  // CHECK: "ck.unpack_fragment"(%{{.*}}) {exponent = -9 : i64, format = "i4"} : (vector<3xi8>) -> vector<6xf8E4M3FN>
  %six = "ck.unpack_fragment"(%vector) {format = "i4", exponent = -9} : (vector<3xi8>) -> vector<6xf8E4M3FN>
  // CHECK: "ck.pack_fragment"(%{{.*}}) {format = "fp4"} : (vector<4xf32>) -> vector<2xi8>
  %two = "ck.pack_fragment"(%four) {format = "fp4"} : (vector<4xf32>) -> vector<2xi8>
  return
}

// CHECK-LABEL: func.func @scaled_integers
func.func @scaled_integers(%bytes: !ck.tile<[64, 4], i8, "d0: 64@lane, d1: 4@y0">, %scales: !ck.tile<[64, 8], f16, "d0: 64@lane, d1: 8@y0">, %vector: vector<4xi8>, %zeros: vector<8xi8>) {
  // CHECK: "ck.dequantize"(%{{.*}}, %{{.*}}, %{{.*}}) {format = "u4", operandSegmentSizes = array<i32: 1, 1, 1>}
  %numbers = "ck.dequantize"(%bytes, %scales, %scales) {format = "u4", operandSegmentSizes = array<i32: 1, 1, 1>} : (!ck.tile<[64, 4], i8, "d0: 64@lane, d1: 4@y0">, !ck.tile<[64, 8], f16, "d0: 64@lane, d1: 8@y0">, !ck.tile<[64, 8], f16, "d0: 64@lane, d1: 8@y0">) -> !ck.tile<[64, 8], f16, "d0: 64@lane, d1: 8@y0">
  // CHECK: "ck.dequantize_fragment"(%{{.*}}, %{{.*}}) {format = "i4", operandSegmentSizes = array<i32: 1, 1, 0>} : (vector<4xi8>, vector<8xi8>) -> vector<8xi8>
  %eight = "ck.dequantize_fragment"(%vector, %zeros) {format = "i4", operandSegmentSizes = array<i32: 1, 1, 0>} : (vector<4xi8>, vector<8xi8>) -> vector<8xi8>
  return
}

// CHECK-LABEL: func.func @positions
func.func @positions(%window: !rows) {
  // CHECK: "ck.inside"(%{{.*}}) : (!ck.window<{{.*}}) -> !ck.tile<[8, 64], i1, "?">
  %exists = "ck.inside"(%window) : (!rows) -> !ck.tile<[8, 64], i1, "?">
  // CHECK: "ck.offsets"(%{{.*}}) : (!ck.window<{{.*}}) -> !ck.tile<[8, 64], i32, "?">
  %places = "ck.offsets"(%window) : (!rows) -> !ck.tile<[8, 64], i32, "?">
  // CHECK: "ck.join_axes"(%{{.*}}) {axis = 0 : i64} : (!ck.tile<[8, 64], i32, "?">) -> !ck.tile<[512], i32, "?">
  %flat = "ck.join_axes"(%places) {axis = 0 : i64} : (!ck.tile<[8, 64], i32, "?">) -> !ck.tile<[512], i32, "?">
  // CHECK: "ck.permute_axes"(%{{.*}}) {order = array<i32: 1, 0>} : (!ck.tile<[8, 64], i32, "?">) -> !ck.tile<[64, 8], i32, "?">
  %turned = "ck.permute_axes"(%places) {order = array<i32: 1, 0>} : (!ck.tile<[8, 64], i32, "?">) -> !ck.tile<[64, 8], i32, "?">
  // CHECK: "ck.inside_fragment"(%{{.*}}) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 3>} : (!ck.window<{{.*}}) -> i1
  %one = "ck.inside_fragment"(%window) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 3>} : (!rows) -> i1
  // CHECK: "ck.offset_fragment"(%{{.*}}) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 3>} : (!ck.window<{{.*}}) -> i32
  %place = "ck.offset_fragment"(%window) {distribution = "d0: 8@lane, d1: 8@lane 8@y0", registers = array<i32: 3>} : (!rows) -> i32
  return
}

// CHECK-LABEL: func.func @promises
func.func @promises(%n: i32, %wide: i64) {
  // CHECK: "ck.promise"(%{{.*}}) {divisor = 8 : i64} : (i32) -> i32
  %0 = "ck.promise"(%n) {divisor = 8 : i64} : (i32) -> i32
  // CHECK: "ck.promise"(%{{.*}}) {divisor = 3 : i64} : (i64) -> i64
  %1 = "ck.promise"(%wide) {divisor = 3 : i64} : (i64) -> i64
  return
}

// CHECK-LABEL: func.func @anew
func.func @anew(%n: i32) {
  // CHECK: "ck.anew"(%{{.*}}) : (i32) -> i32
  %0 = "ck.anew"(%n) : (i32) -> i32
  return
}

!merged = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); d2 = merge(d0, d1, lengths=[?0, ?1]); d3 = right_pad(d2, length=(?0 * ?1), multiple=64); view(d3)">
!digits = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1], strides=[?2, 1]); d2 = merge(d0, d1, lengths=[?0, ?1]); d3 = right_pad(d2, length=(?0 * ?1), multiple=64); view(d3)", [64]>
// CHECK-LABEL: func.func @digits
func.func @digits(%v: !merged, %n: i32) {
  %w = "ck.make_window"(%v, %n) : (!merged, i32) -> !digits
  // CHECK: "ck.with_digits"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64, inside = 8 : i64, of = "thread"}
  %0 = "ck.with_digits"(%w, %n, %n) {axis = 0, inside = 8, of = "thread"} : (!digits, i32, i32) -> !digits
  return
}
