// With `last` the loop has all steps but the last. Where it is sure to run, because it ends at a maximum with a
// constant, that step is taken apart, and what follows the loop stands behind the part whose results it takes.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

!lds = !ck.lds<[64], f32>

// The loop has all steps but one, and no branch leads around it. What both parts need is computed with the first.
// CHECK-LABEL: func.func @in_parts
// CHECK: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK: %[[END:.*]] = arith.maxsi %{{.*}}, %[[ONE]] : i32
// CHECK-NOT: cmpi
// CHECK: cf.br ^[[START:bb[0-9]+]]
// CHECK: ^[[START]]:
// CHECK: %[[LAST:.*]] = arith.subi %[[END]], %[[ONE]] : i32
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %{{.*}}, %[[LAST]] : i32
// CHECK: cf.cond_br %[[MORE]], ^[[STEP:bb[0-9]+]]({{.*}}), ^[[APART:bb[0-9]+]](
// CHECK: ^[[STEP]](
// CHECK: "ck.barrier"
// CHECK: cf.cond_br %{{.*}}, ^[[STEP]]({{.*}}), ^[[APART]](
// No barrier that the schedule lists, since nothing fills LDS any more.
// CHECK: ^[[APART]](
// CHECK-NOT: "ck.barrier"
// CHECK: "ck.lds_read"
// CHECK: %[[FIRST:.*]] = arith.addf
// CHECK-NOT: arith.mulf
// CHECK: cf.br ^[[STORE:bb[0-9]+]](%[[FIRST]] :
// CHECK: ^[[STORE]](%[[STORED:.*]]: vector<1xf32>):
// CHECK: %[[TWICE:.*]] = arith.addf %[[STORED]], %[[STORED]]
// CHECK: "ck.store_fragment"(%[[TWICE]],
// CHECK: cf.br ^[[SECOND:bb[0-9]+]]
// CHECK: ^[[SECOND]]:
// CHECK: arith.mulf
// CHECK: cf.br ^[[REST:bb[0-9]+]](
// CHECK: ^[[REST]](%{{.*}}: vector<1xf32>, %[[OTHER:.*]]: vector<1xf32>):
// CHECK: "ck.store_fragment"(%[[OTHER]],
// CHECK: return
func.func @in_parts(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %end = arith.maxsi %n, %one : i32
  %r:2 = scf.for %i = %zero to %end step %one iter_args(%c = %x, %d = %x) -> (vector<1xf32>, vector<1xf32>) : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "t"} : () -> !lds
    "ck.lds_write"(%x, %t) {ck.stage = "write", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %l = "ck.lds_read"(%t) {ck.stage = "read", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = arith.addf %c, %l {ck.stage = "math"} : vector<1xf32>
    %m = arith.mulf %d, %l {ck.stage = "math"} : vector<1xf32>
    scf.yield %s, %m : vector<1xf32>, vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead write 1; buffers 2; step write, barrier, read, math; slots carried; last 2"}
  %twice = arith.addf %r#0, %r#0 : vector<1xf32>
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4">
  %w = "ck.make_window"(%v, %zero) : (!ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4">, i32) -> !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>
  "ck.store_fragment"(%twice, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>) -> ()
  "ck.store_fragment"(%r#1, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>) -> ()
  return
}

// -----

!lds = !ck.lds<[64], f32>

// Where there may be no step at all, as up to a maximum with the loop's begin, a branch leads around the loop and the last
// step, which stays in one piece.
// CHECK-LABEL: func.func @may_be_empty
// CHECK: cf.cond_br %{{.*}}, ^{{bb[0-9]+}}, ^[[EXIT:bb[0-9]+]](
// CHECK: cf.cond_br %{{.*}}, ^{{bb[0-9]+}}({{.*}}), ^[[APART:bb[0-9]+]](
// CHECK: ^[[APART]](
// CHECK: arith.addf
// CHECK: cf.br ^[[EXIT]](
func.func @may_be_empty(%n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %end = arith.maxsi %n, %zero : i32
  %r = scf.for %i = %zero to %end step %one iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "t"} : () -> !lds
    "ck.lds_write"(%x, %t) {ck.stage = "write", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %l = "ck.lds_read"(%t) {ck.stage = "read", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = arith.addf %c, %l {ck.stage = "read"} : vector<1xf32>
    scf.yield %s : vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead write 1; buffers 2; step write, read; slots carried; last 2"}
  return %r : vector<1xf32>
}

// -----

!lds = !ck.lds<[64], f32>

// Stores keep their order: what the first part comes to waits for the second, which is stored before it.
// CHECK-LABEL: func.func @in_order
// CHECK: ^{{bb[0-9]+}}(%[[FIRST:[0-9]+]]: vector<1xf32>):
// CHECK: %[[TWICE:[0-9]+]] = arith.addf %[[FIRST]], %[[FIRST]]
// CHECK-NOT: "ck.store_fragment"
// CHECK: arith.mulf
// CHECK: ^{{bb[0-9]+}}(%{{[0-9]+}}: vector<1xf32>, %[[SECOND:[0-9]+]]: vector<1xf32>):
// CHECK: "ck.store_fragment"(%[[SECOND]],
// CHECK: "ck.store_fragment"(%[[TWICE]],
// CHECK: return
func.func @in_order(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %end = arith.maxsi %n, %one : i32
  %r:2 = scf.for %i = %zero to %end step %one iter_args(%c = %x, %d = %x) -> (vector<1xf32>, vector<1xf32>) : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "t"} : () -> !lds
    "ck.lds_write"(%x, %t) {ck.stage = "write", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %l = "ck.lds_read"(%t) {ck.stage = "read", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = arith.addf %c, %l {ck.stage = "math"} : vector<1xf32>
    %m = arith.mulf %d, %l {ck.stage = "math"} : vector<1xf32>
    scf.yield %s, %m : vector<1xf32>, vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead write 1; buffers 2; step write, barrier, read, math; slots carried; last 2"}
  %twice = arith.addf %r#0, %r#0 : vector<1xf32>
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4">
  %w = "ck.make_window"(%v, %zero) : (!ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4">, i32) -> !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>
  "ck.store_fragment"(%r#1, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>) -> ()
  "ck.store_fragment"(%twice, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>) -> ()
  return
}

// -----

!lds = !ck.lds<[64], f32>

// A step that branches stays in one piece: its arms use what other parts would compute.
// CHECK-LABEL: func.func @branches
// CHECK: cf.br ^[[LAST:bb[0-9]+]](%{{.*}}, %{{.*}} : vector<1xf32>, vector<1xf32>)
// CHECK: ^[[LAST]](%[[FIRST:.*]]: vector<1xf32>, %[[SECOND:.*]]: vector<1xf32>):
// CHECK: "ck.store_fragment"(%[[FIRST]],
// CHECK: "ck.store_fragment"(%[[SECOND]],
// CHECK: return
func.func @branches(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>, %b: i1) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %end = arith.maxsi %n, %one : i32
  %r:2 = scf.for %i = %zero to %end step %one iter_args(%c = %x, %d = %x) -> (vector<1xf32>, vector<1xf32>) : i32 {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "t"} : () -> !lds
    "ck.lds_write"(%x, %t) {ck.stage = "write", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %l = "ck.lds_read"(%t) {ck.stage = "read", distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %m = arith.mulf %d, %l {ck.stage = "math"} : vector<1xf32>
    %s = scf.if %b -> (vector<1xf32>) {
      %q = arith.addf %c, %m : vector<1xf32>
      scf.yield %q : vector<1xf32>
    } else {
      scf.yield %c : vector<1xf32>
    } {ck.stage = "math"}
    scf.yield %s, %m : vector<1xf32>, vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead write 1; buffers 2; step write, barrier, read, math; slots carried; last 2"}
  %v = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4">
  %w = "ck.make_window"(%v, %zero) : (!ck.view<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4">, i32) -> !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>
  "ck.store_fragment"(%r#0, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>) -> ()
  "ck.store_fragment"(%r#1, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.window<f32, "global", "d0 = embed(offset, lengths=[128], strides=[1]); view(d0) align 4", [64]>) -> ()
  return
}
