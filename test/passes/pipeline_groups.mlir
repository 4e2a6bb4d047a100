// Groups of waves part behind the prologue, each a barrier behind the one before, and meet again where the loop is left;
// barriers of the step stand in the steady loop, and a loop that runs no iteration has none of all that.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

// CHECK-LABEL: func.func @two
// CHECK:      cf.cond_br %{{.*}}, ^bb[[FIRST:[0-9]+]], ^bb[[EXIT:[0-9]+]]
// CHECK:      ^bb[[FIRST]]:
// CHECK:      "ck.lds_write"
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.group_barrier"() {first = 1 : i64, groups = 2 : i64, last = 1 : i64}
// CHECK-NEXT: cf.br ^bb[[LOOP:[0-9]+]]
// CHECK:      ^bb[[LOOP]](
// CHECK:      "ck.lds_read"
// CHECK:      "ck.barrier"()
// CHECK-NEXT: "ck.barrier"()
// CHECK:      "ck.lds_write"
// CHECK-NEXT: "ck.barrier"()
// CHECK-NEXT: "ck.barrier"()
// CHECK:      cf.cond_br %{{.*}}, ^bb[[LOOP]]({{.*}}, ^bb[[LEAVE:[0-9]+]]
// CHECK:      ^bb[[LEAVE]]:
// CHECK-NEXT: "ck.group_barrier"() {first = 0 : i64, groups = 2 : i64, last = 0 : i64}
// CHECK-NEXT: cf.br ^bb[[EXIT]]
!lds = !ck.lds<[128], i32>
func.func @two(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128"} : () -> !lds
    %v = vector.broadcast %i {ck.stage = "w"} : i32 to vector<1xi32>
    "ck.lds_write"(%v, %l) {ck.stage = "w", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead w 1; step r, barrier, barrier, w, barrier, barrier; groups 2"}
  return
}

// -----

// Three groups: the second and third arrive once more, the third again; then the first, and the first and second.
// CHECK-LABEL: func.func @three
// CHECK:      "ck.group_barrier"() {first = 1 : i64, groups = 3 : i64, last = 2 : i64}
// CHECK-NEXT: "ck.group_barrier"() {first = 2 : i64, groups = 3 : i64, last = 2 : i64}
// CHECK:      "ck.group_barrier"() {first = 0 : i64, groups = 3 : i64, last = 0 : i64}
// CHECK-NEXT: "ck.group_barrier"() {first = 0 : i64, groups = 3 : i64, last = 1 : i64}
!lds = !ck.lds<[64], i32>
func.func @three(%n: i32, %x: vector<1xi32>) attributes {ck.waves = 3 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    "ck.lds_write"(%x, %l) {ck.stage = "w", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead w 1; buffers 2; step r, w, barrier, barrier, barrier; groups 3"}
  return
}
