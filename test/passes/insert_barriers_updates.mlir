// Updates of LDS at run-time places: waves meet before the first and behind the last, not between those of one tile or
// such that commute.

// RUN: ckmlir-opt %s --ck-insert-barriers | filecheck %s

!lds = !ck.lds<[128], i32>

// CHECK-LABEL: func.func @meets
// CHECK: "ck.lds_write"
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"
// CHECK-NEXT: "ck.lds_update_fragment"
// CHECK-NEXT: "ck.lds_update_fragment"
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_gather_fragment"
// CHECK-NOT: "ck.barrier"
func.func @meets(%v: vector<1xi32>, %i: i32) attributes {ck.waves = 2 : i32} {
  %0 = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  "ck.lds_write"(%v, %0) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>, begins} : (vector<1xi32>, !lds) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane 2@y0", registers = array<i32: 1>, follows} : (vector<1xi32>, !lds, i32) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  %1 = "ck.lds_gather_fragment"(%0, %i) {axis = 0 : i64, distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!lds, i32) -> vector<1xi32>
  return
}

// Stores of one tile may take any order; those of the next come later, and so do maxima behind sums.
// CHECK-LABEL: func.func @order
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}}follows
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}}kind = "store"
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}}kind = "add"
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}}kind = "max"
func.func @order(%v: vector<1xi32>, %i: i32) attributes {ck.waves = 2 : i32} {
  %0 = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  "ck.lds_write"(%v, %0) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>, begins} : (vector<1xi32>, !lds) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "store", distribution = "d0: 2@wave 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "store", distribution = "d0: 2@wave 64@lane 2@y0", registers = array<i32: 1>, follows} : (vector<1xi32>, !lds, i32) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "store", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "max", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  return
}

// Who learns what was there before an update stands in the order of the program to all others, but for those of its tile.
// CHECK-LABEL: func.func @learns
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}} -> ()
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}} -> vector<1xi32>
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}}follows{{.*}} -> vector<1xi32>
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}} -> vector<1xi32>
// CHECK: "ck.barrier"
// CHECK-NEXT: "ck.lds_update_fragment"{{.*}} -> ()
func.func @learns(%v: vector<1xi32>, %i: i32) attributes {ck.waves = 2 : i32} {
  %0 = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", offset = 0 : i64} : () -> !lds
  "ck.lds_write"(%v, %0) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>, begins} : (vector<1xi32>, !lds) -> ()
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  %1 = "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane 2@y0", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> vector<1xi32>
  %2 = "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane 2@y0", registers = array<i32: 1>, follows} : (vector<1xi32>, !lds, i32) -> vector<1xi32>
  %3 = "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> vector<1xi32>
  "ck.lds_update_fragment"(%v, %0, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds, i32) -> ()
  return
}
