// An LDS tensor that a block takes as an argument is a number there, its slot's first byte: added to a lane's part once,
// in front of the constants, which stay the instructions' offsets.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file --verify-diagnostics | filecheck %s

!lds = !ck.lds<[4, 64], f32>

module attributes {ck.target = "gfx942"} {
// CHECK-LABEL: llvm.func @in_turn
// CHECK: %[[FIRST:.*]] = arith.constant 0 : i32
// CHECK: %[[SECOND:.*]] = arith.constant 1024 : i32
// CHECK: cf.br ^[[STEP:bb[0-9]+]](%[[FIRST]], %[[SECOND]] : i32, i32)
// CHECK: ^[[STEP]](%[[A:.*]]: i32, %[[B:.*]]: i32):
// CHECK: %[[LANE:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK-NEXT: %[[SLOT:.*]] = llvm.getelementptr %[[LANE]][%[[A]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK-NEXT: llvm.load %[[SLOT]]
// CHECK: %[[ROW:.*]] = llvm.getelementptr %[[SLOT]][256]
// CHECK-NEXT: llvm.load %[[ROW]]
// CHECK: cf.cond_br %{{.*}}, ^[[STEP]](%[[B]], %[[A]] : i32, i32)
func.func @in_turn(%some: i1) attributes {ck.waves = 1 : i32, ck.lds_bytes = 2048 : i64} {
  %s = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !lds
  %t = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64", offset = 1024 : i64} : () -> !lds
  cf.br ^bb1(%s, %t : !lds, !lds)
^bb1(%now: !lds, %next: !lds):
  %x = "ck.lds_read"(%now) {distribution = "d0: 4@y0, d1: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  %y = "ck.lds_read"(%now) {distribution = "d0: 4@y0, d1: 64@lane", registers = array<i32: 1>} : (!lds) -> vector<1xf32>
  cf.cond_br %some, ^bb1(%next, %now : !lds, !lds), ^bb2
^bb2:
  return
}
}

// -----

!lds = !ck.lds<[4, 64], f32>

module attributes {ck.target = "gfx942"} {
func.func @of_two_layouts(%some: i1) attributes {ck.waves = 1 : i32, ck.lds_bytes = 2112 : i64} {
  // expected-note@+1 {{that one}}
  %s = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !lds
  // expected-error@+1 {{a loop takes this tensor and another in turn; they need the same layout}}
  %t = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 68", offset = 1024 : i64} : () -> !lds
  cf.br ^bb1(%s, %t : !lds, !lds)
^bb1(%now: !lds, %next: !lds):
  %x = "ck.lds_read"(%now) {distribution = "d0: 4@y0, d1: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
  cf.cond_br %some, ^bb1(%next, %now : !lds, !lds), ^bb2
^bb2:
  return
}
}
