// A block that is handed its LDS slots is looked at once for each arrangement of them, as if the loop had been unrolled: all
// slots have room of their own and one layout, and one barrier a step keeps writes and reads apart.

// RUN: ckmlir-opt %s --ck-pipeline-loops --ck-allocate-lds --ck-insert-barriers | filecheck %s

!lds = !ck.lds<[128], f32>

module attributes {ck.target = "gfx942"} {
// CHECK-LABEL: func.func @two
// CHECK-SAME: ck.lds_bytes = 1024
// CHECK: "ck.lds_alloc"(){{.*}} offset = 0
// CHECK: "ck.lds_alloc"(){{.*}} offset = 512
// CHECK: "ck.lds_write"
// CHECK-NEXT: cf.br ^[[STEP:bb[0-9]+]](
// CHECK: ^[[STEP]](%{{.*}}: i32, %{{.*}}: vector<1xf32>, %[[A:[0-9]+]]: !ck.lds<[128], f32>, %[[B:[0-9]+]]: !ck.lds<[128], f32>):
// What the step before has written into the slot that this one reads has to be there; the other slot is free.
// CHECK: "ck.wait"() {lds = 0 : i64}
// CHECK-NEXT: "ck.barrier"
// CHECK-NEXT: "ck.lds_read"(%[[A]])
// CHECK-NOT: "ck.barrier"
// CHECK: "ck.lds_write"(%{{.*}}, %[[B]])
// CHECK-NOT: "ck.barrier"
// CHECK: cf.cond_br
func.func @two(%n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 128 order 0 pitch 128", name = "t"} : () -> !lds
    "ck.lds_write"(%x, %t) {ck.stage = "write", distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %l = "ck.lds_read"(%t) {ck.stage = "read", distribution = "d0: 64@lane 2@wave", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = arith.addf %c, %l {ck.stage = "read"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead write 1; buffers 2; step read, write; slots carried"}
  return %r : vector<1xf32>
}
}
