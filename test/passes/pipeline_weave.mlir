// Between the matrix instructions of a woven step stand, fragment by fragment, the stages that lie under them.

// RUN: ckmlir-opt %s --ck-pipeline-loops | filecheck %s

!lds = !ck.lds<[256], f16>
module attributes {ck.target = "gfx942"} {
// Accumulators that begin in the step are finished one after another; the write lies in the middle, the read one matrix
// instruction before the first that uses it, which is at the end of the step before; arithmetic is shared out by its
// time, as soon as its operands are there, with the result of a product last. Each matrix instruction has its fence.
// CHECK-LABEL: func.func @woven
// CHECK:      ^bb1:
// CHECK:      "ck.lds_write"
// CHECK:      "ck.lds_read"
// CHECK:      ^bb2(%{{.*}}: i32, %[[A:.*]]: vector<4xf16>, %[[C:.*]]: vector<4xf32>):
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: %[[M0:.*]] = "ck.mfma"(%[[A]], %arg2, %[[ZERO:.*]]) {ck.fences = "fence"
// CHECK-NEXT: %[[E0:.*]] = math.exp2 %[[C]]
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: %[[M2:.*]] = "ck.mfma"(%[[A]], %arg2, %[[M0]])
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: %[[M1:.*]] = "ck.mfma"(%arg2, %arg2, %[[ZERO]])
// CHECK:      "ck.lds_write"
// CHECK-NEXT: %[[E1:.*]] = math.exp2 %arg1
// CHECK-NEXT: "ck.sched_barrier"() {mask = "none"}
// CHECK-NEXT: %[[M3:.*]] = "ck.mfma"(%arg2, %arg2, %[[M1]])
// CHECK-NEXT: "ck.lds_read"
// CHECK-NEXT: arith.addf %[[E0]], %[[C]]
// CHECK-NEXT: arith.addf %[[M2]], %[[M3]]
// CHECK-NEXT: arith.addf %[[E1]]
// CHECK-NEXT: arith.addf
// CHECK:      cf.cond_br
func.func @woven(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1; buffers 2; order weave; step product, read, exp, fill, sum; lead 1; elements 4; fences products"}
  return %r : vector<4xf32>
}

// Writes that lie in the middle would come behind a read, three matrix instructions before its first use, that has to
// find them: they are spread in front of it.
// CHECK-LABEL: func.func @before_its_read
// CHECK:      ^bb2
// CHECK:      "ck.mfma"
// CHECK:      "ck.lds_write"
// CHECK:      "ck.mfma"
// CHECK:      "ck.lds_read"
// CHECK:      "ck.mfma"
// CHECK:      "ck.mfma"
// CHECK:      cf.cond_br
func.func @before_its_read(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1; buffers 2; order weave; step product, read, exp, fill, sum; lead 3; elements 4; fences products"}
  return %r : vector<4xf32>
}

// The pieces of a stage that has no other fragments can be listed by number.
// CHECK-LABEL: func.func @listed
// CHECK:      ^bb1
// CHECK:      %[[A:[0-9]+]] = math.exp2 %arg1
// CHECK:      "ck.mfma"
// CHECK-NOT:  arith.addf
// CHECK:      %[[B:[0-9]+]] = math.exp2
// CHECK-NEXT: arith.addf %[[B]]
// CHECK-NEXT: arith.addf %[[A]]
func.func @listed(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; elements 4; step fill, read, exp.1, product, exp.0, exp.2-3, sum"}
  return %r : vector<4xf32>
}

// Accumulators that go round the loop as they are keep the program's order.
// CHECK-LABEL: func.func @carried
// CHECK:      ^bb2(%{{.*}}: i32, %[[C:.*]]: vector<4xf32>, %[[D:.*]]: vector<4xf32>):
// CHECK:      %[[M0:.*]] = "ck.mfma"(%arg2, %arg2, %[[C]])
// CHECK:      %[[M1:.*]] = "ck.mfma"(%arg2, %arg2, %[[D]])
// CHECK:      "ck.mfma"(%arg2, %arg2, %[[M0]])
// CHECK:      "ck.mfma"(%arg2, %arg2, %[[M1]])
func.func @carried(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%c = %x, %d = %x) -> (vector<4xf32>, vector<4xf32>) : i32 {
    %m0 = "ck.mfma"(%h, %h, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%h, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    scf.yield %m2, %m3 : vector<4xf32>, vector<4xf32>
  } {ck.schedule = "schedule s 1; order weave; step product; lead 1; elements 4; fences products"}
  return %r#0 : vector<4xf32>
}
}
