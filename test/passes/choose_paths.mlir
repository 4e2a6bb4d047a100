// An operand takes the path that its loop's schedule gives it: through registers, direct to LDS, or straight to registers, and
// what is converted on its way straight is loaded for its reader, and converted in the reader's stage.

// RUN: ckmlir-opt %s --ck-choose-paths | filecheck %s

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[64, ?0%8], strides=[?0%8, 1]); view(d0, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[64, ?0%8], strides=[?0%8, 1]); view(d0, d1) align 8", [16, 64]>
!loaded = !ck.tile<[16, 64], f16, "?">
!wanted = !ck.tile<[16, 64], f16, "d0: 16@lane, d1: 4@lane 16@y0">
!lds = !ck.lds<[16, 64], f16>

// In a branch that the loop holds, too.
// CHECK-LABEL: func.func @branch
// CHECK: scf.if
// CHECK-NEXT: %[[A:.*]] = "ck.copy_to_lds"(%{{.*}}) {name = "a"}
// CHECK-NEXT: "ck.from_lds"(%[[A]])
func.func @branch(%p: !llvm.ptr<1>, %n: i32, %c: i1) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%view, %zero, %i) {ck.stage = "load"} : (!view, i32, i32) -> !window
    scf.if %c {
      %a = "ck.load"(%w) : (!window) -> !loaded
      %la = "ck.to_lds"(%a) {name = "a"} : (!loaded) -> !lds
      %ra = "ck.from_lds"(%la) : (!lds) -> !wanted
    } {ck.stage = "load"}
  } {ck.schedule = "schedule s 1; path direct"}
  return
}

// CHECK-LABEL: func.func @paths
// CHECK-NOT:  ck.load
// CHECK:      %[[A:.*]] = "ck.copy_to_lds"(%{{.*}}) {ck.stage = "load", name = "a"}
// CHECK-NEXT: %[[B:.*]] = "ck.load"(%{{.*}}) {ck.stage = "load"} : {{.*}} -> !ck.tile<[16, 64], f16, "d0: 16@lane, d1: 4@lane 16@y0">
// CHECK-NEXT: %[[C:.*]] = "ck.load"(%{{.*}}) {ck.stage = "load"} : {{.*}} -> !ck.tile<[16, 64], f16, "?">
// CHECK-NEXT: %[[L:.*]] = "ck.to_lds"(%[[C]]) {ck.stage = "to_lds", name = "c"}
// CHECK-NEXT: "ck.from_lds"(%[[A]])
// CHECK-NEXT: "ck.from_lds"(%[[L]])
// CHECK:      "ck.cast"(%[[B]])
func.func @paths(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%view, %zero, %i) {ck.stage = "load"} : (!view, i32, i32) -> !window
    %a = "ck.load"(%w) {ck.stage = "load"} : (!window) -> !loaded
    %b = "ck.load"(%w) {ck.stage = "load"} : (!window) -> !loaded
    %c = "ck.load"(%w) {ck.stage = "load"} : (!window) -> !loaded
    %la = "ck.to_lds"(%a) {ck.stage = "to_lds", name = "a"} : (!loaded) -> !lds
    %lb = "ck.to_lds"(%b) {ck.stage = "to_lds", name = "b"} : (!loaded) -> !lds
    %lc = "ck.to_lds"(%c) {ck.stage = "to_lds", name = "c"} : (!loaded) -> !lds
    %ra = "ck.from_lds"(%la) {ck.stage = "from_lds"} : (!lds) -> !wanted
    %rb = "ck.from_lds"(%lb) {ck.stage = "from_lds"} : (!lds) -> !wanted
    %rc = "ck.from_lds"(%lc) {ck.stage = "from_lds"} : (!lds) -> !wanted
    %x = "ck.cast"(%rb) {ck.stage = "math"} : (!wanted) -> !ck.tile<[16, 64], f32, "d0: 16@lane, d1: 4@lane 16@y0">
  } {ck.schedule = "schedule s 1; path direct, b straight, c through"}
  return
}

!ids = !ck.tile<[16], i32, "?">
!far = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1%8], strides=[?1%8, 1]); view(d0, d1) align 8">
!beyond = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, ?1%8], strides=[?1%8, 1]); view(d0, d1) align 8", [16, 64]>

// What is gathered near is copied at its indices. What is gathered far has no such copy, and a path for all does not mean it.
// CHECK-LABEL: func.func @gathered
// CHECK-NOT:  ck.gather
// CHECK:      "ck.copy_to_lds"(%{{.*}}, %{{.*}}) {axis = 0 : i64, ck.stage = "load", name = "a", reach = "near"}
// CHECK:      %[[B:.*]] = "ck.gather"(%{{.*}}, %{{.*}}) {axis = 0 : i64, ck.stage = "load"}
// CHECK:      "ck.to_lds"(%[[B]]) {ck.stage = "to_lds", name = "b"}
// CHECK-NOT:  ck.copy_to_lds
func.func @gathered(%p: !llvm.ptr<1>, %n: i32, %i: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %view = "ck.make_view"(%p, %n, %n) : (!llvm.ptr<1>, i32, i32) -> !far
  %ids = "ck.splat"(%i) : (i32) -> !ids
  scf.for %k = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%view, %zero, %k) {ck.stage = "load"} : (!far, i32, i32) -> !beyond
    %a = "ck.gather"(%w, %ids) {axis = 0 : i64, reach = "near", ck.stage = "load"} : (!beyond, !ids) -> !loaded
    %b = "ck.gather"(%w, %ids) {axis = 0 : i64, ck.stage = "load"} : (!beyond, !ids) -> !loaded
    %la = "ck.to_lds"(%a) {ck.stage = "to_lds", name = "a"} : (!loaded) -> !lds
    %lb = "ck.to_lds"(%b) {ck.stage = "to_lds", name = "b"} : (!loaded) -> !lds
    %ra = "ck.from_lds"(%la) {ck.stage = "from_lds"} : (!lds) -> !wanted
    %rb = "ck.from_lds"(%lb) {ck.stage = "from_lds"} : (!lds) -> !wanted
  } {ck.schedule = "schedule s 1; path direct"}
  return
}

!bytes = !ck.view<i8, "global", "d0 d1 = embed(offset, lengths=[64, ?0%8], strides=[?0%8, 1]); view(d0, d1) align 8">
!octets = !ck.window<i8, "global", "d0 d1 = embed(offset, lengths=[64, ?0%8], strides=[?0%8, 1]); view(d0, d1) align 8", [16, 32]>
!row = !ck.view<i8, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!points = !ck.window<i8, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [16]>

// CHECK-LABEL: func.func @converted
// CHECK:      %[[ZEROS:.*]] = "ck.load"(%{{.*}}) {ck.stage = "load"} : {{.*}} -> !ck.tile<[16], i8, "?">
// CHECK:      %[[BYTES:.*]] = "ck.load"(%{{.*}}) {ck.stage = "load"} : {{.*}} -> !ck.tile<[16, 32], i8, "?">
// CHECK-NOT:  ck.to_lds
// CHECK:      %[[EACH:.*]] = "ck.broadcast"(%[[ZEROS]]) {axis = 1 : i64, ck.stage = "from_lds"}
// CHECK-NEXT: %[[WIDE:.*]] = "ck.dequantize"(%[[BYTES]], %[[EACH]]) {{{.*}}ck.stage = "from_lds"{{.*}}} : {{.*}} -> !ck.tile<[16, 64], i8, "d0: 16@lane, d1: 4@lane 16@y0">
// CHECK-NEXT: "ck.cast"(%[[WIDE]]) {ck.stage = "math"}
// CHECK-NOT:  ck.from_lds
func.func @converted(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 32 : i32
  %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !bytes
  %row = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !row
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%view, %zero, %i) {ck.stage = "load"} : (!bytes, i32, i32) -> !octets
    %v = "ck.make_window"(%row, %zero) {ck.stage = "load"} : (!row, i32) -> !points
    %z = "ck.load"(%v) {ck.stage = "load"} : (!points) -> !ck.tile<[16], i8, "?">
    %b = "ck.load"(%w) {ck.stage = "load"} : (!octets) -> !ck.tile<[16, 32], i8, "?">
    %e = "ck.broadcast"(%z) {axis = 1 : i64, ck.stage = "to_lds"} : (!ck.tile<[16], i8, "?">) -> !ck.tile<[16, 64], i8, "?">
    %d = "ck.dequantize"(%b, %e) {ck.stage = "to_lds", format = "i4", operandSegmentSizes = array<i32: 1, 1, 0>} : (!ck.tile<[16, 32], i8, "?">, !ck.tile<[16, 64], i8, "?">) -> !ck.tile<[16, 64], i8, "?">
    %l = "ck.to_lds"(%d) {ck.stage = "to_lds", name = "b"} : (!ck.tile<[16, 64], i8, "?">) -> !ck.lds<[16, 64], i8>
    %r = "ck.from_lds"(%l) {ck.stage = "from_lds"} : (!ck.lds<[16, 64], i8>) -> !ck.tile<[16, 64], i8, "d0: 16@lane, d1: 4@lane 16@y0">
    %x = "ck.cast"(%r) {ck.stage = "math"} : (!ck.tile<[16, 64], i8, "d0: 16@lane, d1: 4@lane 16@y0">) -> !ck.tile<[16, 64], f32, "d0: 16@lane, d1: 4@lane 16@y0">
  } {ck.schedule = "schedule s 1; path b straight"}
  return
}

// A map with what nothing loads: each reader has its own, and coordinates where its tile lies; others may use them, too.
// CHECK-LABEL: func.func @mapped
// CHECK:      %[[B:.*]] = "ck.load"(%{{.*}}) {ck.stage = "load"} : {{.*}} -> !ck.tile<[16, 64], f16, "?">
// CHECK:      "ck.coordinates"() {axis = 1 : i64} : () -> !ck.tile<[16, 64], i32, "?">
// CHECK:      %[[C:.*]] = "ck.coordinates"() {axis = 1 : i64, ck.stage = "from_lds"} : () -> !ck.tile<[16, 64], i32, "?">
// CHECK:      %[[M:.*]] = "ck.map"() ({
// CHECK-NEXT:   "ck.element"(%[[C]])
// CHECK-NEXT:   "ck.element"(%[[B]])
// CHECK:      }) {ck.stage = "from_lds"} : {{.*}} -> !ck.tile<[16, 64], f16, "d0: 16@lane, d1: 4@lane 16@y0">
// CHECK-NEXT: "ck.cast"(%[[M]])
// CHECK-NOT:  ck.from_lds
func.func @mapped(%p: !llvm.ptr<1>, %n: i32, %none: f16) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %step : i32 {
    %w = "ck.make_window"(%view, %zero, %i) {ck.stage = "load"} : (!view, i32, i32) -> !window
    %b = "ck.load"(%w) {ck.stage = "load"} : (!window) -> !loaded
    %c = "ck.coordinates"() {axis = 1 : i64} : () -> !ck.tile<[16, 64], i32, "?">
    %k = "ck.cast"(%c) : (!ck.tile<[16, 64], i32, "?">) -> !ck.tile<[16, 64], f32, "?">
    %m = "ck.map"() ({
      %at = "ck.element"(%c) : (!ck.tile<[16, 64], i32, "?">) -> i32
      %e = "ck.element"(%b) : (!loaded) -> f16
      %inside = arith.cmpi slt, %at, %n : i32
      %found = arith.select %inside, %e, %none : f16
      "ck.yield"(%found) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f16) -> ()
    }) {ck.stage = "to_lds"} : () -> !loaded
    %l = "ck.to_lds"(%m) {ck.stage = "to_lds", name = "b"} : (!loaded) -> !lds
    %r = "ck.from_lds"(%l) {ck.stage = "from_lds"} : (!lds) -> !wanted
    %x = "ck.cast"(%r) {ck.stage = "math"} : (!wanted) -> !ck.tile<[16, 64], f32, "d0: 16@lane, d1: 4@lane 16@y0">
  } {ck.schedule = "schedule s 1; path b straight"}
  return
}
