// Waves that hold the same elements each write, or copy, to a room of their own, so that no two waves write a byte; reads are of
// the first. The distance between rooms is that of the tensor with its layout.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file | filecheck %s

!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @writes
  // CHECK: %[[WAVE:.*]] = rocdl.readfirstlane
  // CHECK: %[[DISTANCE:.*]] = arith.constant 8 : i32
  // CHECK: %[[ROOM:.*]] = arith.shli %[[WAVE]], %[[DISTANCE]]
  // CHECK: %[[PLACE:.*]] = arith.addi {{.*}}%[[ROOM]]
  // CHECK: %[[AT:.*]] = llvm.getelementptr %{{.*}}[%[[PLACE]]]
  // CHECK: llvm.store %{{.*}}, %[[AT]]
  // CHECK-NOT: %[[ROOM]]
  // CHECK: llvm.load
  func.func @writes(%v: vector<1xf32>) attributes {ck.waves = 4 : i32, ck.lds_bytes = 1024 : i64} {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", offset = 0 : i64, rooms = 4 : i64} : () -> !lds
    "ck.lds_write"(%v, %t) {begins, distribution = "r: 4@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
    %r = "ck.lds_read"(%t) {distribution = "r: 4@wave, d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
    return
  }
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0], strides=[1]); view(d0) align 16", [64]>
!lds = !ck.lds<[64], f32>
module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @copies
  // CHECK: %[[WAVE:.*]] = rocdl.readfirstlane
  // CHECK: %[[ROOM:.*]] = arith.shli %[[WAVE]], %{{.*}}
  // CHECK: %[[AT:.*]] = llvm.getelementptr %{{.*}}[%[[ROOM]]]
  // CHECK: rocdl.raw.ptr.buffer.load.async.lds %{{.*}}, %[[AT]]
  func.func @copies(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 4 : i32, ck.lds_bytes = 1024 : i64} {
    %t = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", offset = 0 : i64, rooms = 4 : i64} : () -> !lds
    %view = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %w = "ck.make_window"(%view, %n) : (!view, i32) -> !window
    "ck.copy_fragment"(%w, %t) {begins, distribution = "r: 4@wave, d0: 64@lane", registers = array<i32: 0>} : (!window, !lds) -> ()
    return
  }
}
