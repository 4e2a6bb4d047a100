// Accesses to LDS by tiles of indices become one access an element, or a vector along the dimension that no index names;
// each takes the index that its own thread holds.

// RUN: ckmlir-opt %s --ck-split-tiles | filecheck %s

!bins = !ck.tile<[128], i32, "d0: 2@wave 64@lane">
!ids = !ck.tile<[256], i32, "d0: 2@wave 64@lane 2@y0">

// What LDS combines by itself is taken element by element; all but the first say that they stand in no order to it.
// CHECK-LABEL: func.func @histogram
// CHECK: %[[LDS:.*]] = "ck.lds_alloc"()
// CHECK: "ck.lds_write"(%{{.*}}, %[[LDS]]) {begins
// CHECK: %[[FIRST:.*]] = vector.extract %{{.*}}[0]
// CHECK: "ck.lds_update_fragment"(%{{.*}}, %[[LDS]], %[[FIRST]]) {axis = 0 : i64, {{.*}}, kind = "add", registers = array<i32: 0>}
// CHECK: %[[SECOND:.*]] = vector.extract %{{.*}}[1]
// CHECK: "ck.lds_update_fragment"(%{{.*}}, %[[LDS]], %[[SECOND]]) {axis = 0 : i64, {{.*}}follows, kind = "add", registers = array<i32: 1>}
// CHECK: %[[OWN:.*]] = vector.extract %{{.*}}[0]
// CHECK: "ck.lds_gather_fragment"(%[[LDS]], %[[OWN]]) {axis = 0 : i64, {{.*}}registers = array<i32: 0>} : {{.*}} -> vector<1xi32>
// CHECK: "ck.lds_gather_fragment"(%[[LDS]], %{{.*}}) {axis = 0 : i64, {{.*}}registers = array<i32: 1>}
func.func @histogram(%zero: i32, %x: i32) attributes {ck.waves = 2 : i32} {
  %0 = "ck.splat"(%zero) : (i32) -> !bins
  %ids = "ck.splat"(%x) : (i32) -> !ids
  %lds = "ck.to_lds"(%0) : (!bins) -> !ck.lds<[128], i32>
  "ck.lds_update"(%ids, %lds, %ids) {axis = 0 : i64, kind = "add"} : (!ids, !ck.lds<[128], i32>, !ids) -> ()
  %own = "ck.lds_gather"(%lds, %ids) {axis = 0 : i64} : (!ck.lds<[128], i32>, !ids) -> !ids
  return
}

!rows = !ck.tile<[16, 8], f32, "d0: 16@lane, d1: 4@lane 2@y0">
!which = !ck.tile<[16], i32, "r: 4@lane.1, d0: 16@lane.0">

// Rows by index: two neighbours of a row in one access.
// CHECK-LABEL: func.func @rows
// CHECK: "ck.lds_update_fragment"(%{{.*}}) {axis = 0 : i64, {{.*}}kind = "store", registers = array<i32: 0, 1>} : (vector<2xf32>,
// CHECK: "ck.lds_gather_fragment"(%{{.*}}) {axis = 0 : i64, {{.*}}registers = array<i32: 0, 1>} : {{.*}} -> vector<2xf32>
func.func @rows(%x: f32, %i: i32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !rows
  %which = "ck.splat"(%i) : (i32) -> !which
  %lds = "ck.to_lds"(%0) : (!rows) -> !ck.lds<[16, 8], f32>
  "ck.lds_update"(%0, %lds, %which) {axis = 0 : i64, kind = "store"} : (!rows, !ck.lds<[16, 8], f32>, !which) -> ()
  %again = "ck.lds_gather"(%lds, %which) {axis = 0 : i64} : (!ck.lds<[16, 8], f32>, !which) -> !rows
  return
}

!numbers = !ck.tile<[4, 64], f32, "d0: 4@y0, d1: 64@lane">
!row = !ck.tile<[1, 64], f32, "d0: 1, d1: 64@lane">
!number = !ck.tile<[1], i32, "r: 64@lane, d0: 1">

// The writer's vectors lie along the axis of the indices; the other one is contiguous in LDS.
// CHECK-LABEL: func.func @row
// CHECK: "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64"
// CHECK: "ck.lds_write"{{.*}}registers = array<i32: 0>} : (vector<1xf32>
func.func @row(%x: f32, %i: i32) attributes {ck.waves = 1 : i32} {
  %0 = "ck.splat"(%x) : (f32) -> !numbers
  %number = "ck.splat"(%i) : (i32) -> !number
  %lds = "ck.to_lds"(%0) : (!numbers) -> !ck.lds<[4, 64], f32>
  %row = "ck.lds_gather"(%lds, %number) {axis = 0 : i64} : (!ck.lds<[4, 64], f32>, !number) -> !row
  return
}
