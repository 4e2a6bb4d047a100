// What a stage does for one LDS tensor runs as far ahead as the schedule says for that one, into as many buffers.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file | filecheck %s

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>

// Copies of A run two iterations ahead into three buffers, those of B one into two: six steps. The prologue copies two
// tiles of A and one of B.
// CHECK-LABEL: func.func @copies
// CHECK: %[[A0:.*]] = "ck.lds_alloc"() {{.*}}name = "a"
// CHECK: %[[A1:.*]] = "ck.lds_alloc"() {{.*}}name = "a"
// CHECK: %[[A2:.*]] = "ck.lds_alloc"() {{.*}}name = "a"
// CHECK: %[[B0:.*]] = "ck.lds_alloc"() {{.*}}name = "b"
// CHECK: %[[B1:.*]] = "ck.lds_alloc"() {{.*}}name = "b"
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[A0]])
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[A1]])
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[B0]])
// CHECK-NOT: "ck.copy_fragment"
// CHECK: cf.cond_br %{{.*}}, ^[[STEADY:bb[0-9]+]](
// CHECK: ^[[STEADY]](%[[I:.*]]: i32):
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[A2]])
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[B1]])
// CHECK: "ck.lds_read"(%[[A0]])
// CHECK: "ck.lds_read"(%[[B0]])
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[A0]])
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[B0]])
// CHECK: "ck.lds_read"(%[[A1]])
// CHECK: "ck.lds_read"(%[[B1]])
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[A1]])
// CHECK: "ck.copy_fragment"(%{{.*}}, %[[B1]])
// CHECK: "ck.lds_read"(%[[A2]])
// CHECK: "ck.lds_read"(%[[B0]])
func.func @copies(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %a = "ck.lds_alloc"() {ck.stage = "load", layout = "lengths 64 order 0 pitch 64", name = "a"} : () -> !lds
    "ck.copy_fragment"(%w, %a) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
    %b = "ck.lds_alloc"() {ck.stage = "load", layout = "lengths 64 order 0 pitch 64", name = "b"} : () -> !lds
    "ck.copy_fragment"(%w, %b) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
    %r = "ck.lds_read"(%a) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    %s = "ck.lds_read"(%b) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  } {ck.schedule = "schedule wide 1; ahead load 2, load.b 1; path direct; buffers 2, a 3"}
  return
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>

// A load is of the tensor whose write it feeds.
// CHECK-LABEL: func.func @loads
// CHECK: "ck.load_fragment"
// CHECK-NOT: "ck.load_fragment"
// CHECK: ^bb2(%{{.*}}: i32, %[[EARLY:.*]]: vector<1xf32>):
// CHECK: %[[NOW:.*]] = "ck.load_fragment"
// CHECK: "ck.lds_write"(%[[NOW]]
// CHECK: %[[NEXT:.*]] = "ck.load_fragment"
// CHECK: "ck.lds_write"(%[[EARLY]]
// CHECK: %[[THEN:.*]] = "ck.load_fragment"
// CHECK: "ck.lds_write"(%[[THEN]]
// CHECK: "ck.lds_write"(%[[NEXT]]
func.func @loads(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    %a = "ck.lds_alloc"() {ck.stage = "to_lds", layout = "lengths 64 order 0 pitch 64", name = "a"} : () -> !lds
    %x = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    "ck.lds_write"(%x, %a) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %b = "ck.lds_alloc"() {ck.stage = "to_lds", layout = "lengths 64 order 0 pitch 64", name = "b"} : () -> !lds
    %y = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    "ck.lds_write"(%y, %b) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
  } {ck.schedule = "schedule one 1; ahead load.b 1"}
  return
}
