// What may differ between waves does not decide about a barrier: memory that may change meanwhile, lane 0 of what every
// wave has read at a place of its own, and what ways that waves take apart hand over.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --ck-check-schedule

// Waves may read the length at different times.
module attributes {ck.target = "gfx942"} {
func.func @changing(%p: !llvm.ptr<1>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  // expected-note@+1 {{it depends on this}}
  %n = llvm.load %p {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %some = arith.cmpi slt, %zero, %n : i32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %some, ^yes, ^end
^yes:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'llvm.load', which differs between threads [uniform]}}
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
}

// -----

// The kernel changes what waves read, each at its own time.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @changed(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0.0 : f32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  // expected-note@+1 {{it depends on this}}
  %t = "ck.load_fragment"(%w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  "ck.store_fragment"(%x, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %e = vector.extract %t[0] : f32 from vector<1xf32>
  %u = "ck.first_lane"(%e) : (f32) -> f32
  %some = arith.cmpf ogt, %u, %zero : f32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %some, ^yes, ^end
^yes:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'ck.load_fragment', which differs between threads [uniform]}}
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
}

// -----

// So are copies of one element that waves have read apart.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @copied(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xf32>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0.0 : f32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  // expected-note@+1 {{it depends on this}}
  %t = "ck.load_fragment"(%w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  "ck.store_fragment"(%x, %w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %e = vector.extract %t[0] : f32 from vector<1xf32>
  %u = "ck.first_lane"(%e) {copies} : (f32) -> f32
  %some = arith.cmpf ogt, %u, %zero : f32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %some, ^yes, ^end
^yes:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'ck.load_fragment', which differs between threads [uniform]}}
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
}

// -----

// Lane 0 of each wave holds another element.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [128]>
module attributes {ck.target = "gfx942"} {
func.func @apart(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0.0 : f32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  // expected-note@+1 {{it depends on this}}
  %t = "ck.load_fragment"(%w) {distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %e = vector.extract %t[0] : f32 from vector<1xf32>
  %u = "ck.first_lane"(%e) : (f32) -> f32
  %some = arith.cmpf ogt, %u, %zero : f32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %some, ^yes, ^end
^yes:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'ck.load_fragment', which differs between threads [uniform]}}
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
}

// -----

// Constants, but which of them a wave has depends on the way that it took.
module attributes {ck.target = "gfx942"} {
func.func @by_way() attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note@+1 {{it depends on this}}
  %mine = "ck.thread_coordinate"() {axis = 0 : i64, distribution = "d0: 2@wave 64@lane"} : () -> i32
  %first = arith.cmpi slt, %mine, %one : i32
  cf.cond_br %first, ^yes, ^no
^yes:
  cf.br ^meet(%zero : i32)
^no:
  cf.br ^meet(%one : i32)
^meet(%which: i32):
  %some = arith.cmpi slt, %zero, %which : i32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %some, ^barrier, ^end
^barrier:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'ck.thread_coordinate', which differs between threads [uniform]}}
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
}

// -----

// Waves took different ways before they made their copies.
module attributes {ck.target = "gfx942"} {
func.func @copies_by_way() attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note@+1 {{it depends on this}}
  %mine = "ck.thread_coordinate"() {axis = 0 : i64, distribution = "d0: 2@wave 64@lane"} : () -> i32
  %first = arith.cmpi slt, %mine, %one : i32
  cf.cond_br %first, ^yes, ^no
^yes:
  cf.br ^meet(%zero : i32)
^no:
  cf.br ^meet(%one : i32)
^meet(%which: i32):
  %all = "ck.first_lane"(%which) {copies} : (i32) -> i32
  %some = arith.cmpi slt, %zero, %all : i32
  // expected-note@+1 {{the branch is here}}
  cf.cond_br %some, ^barrier, ^end
^barrier:
  // expected-error@+1 {{some waves may not reach a barrier with the others: the branch before depends on 'ck.thread_coordinate', which differs between threads [uniform]}}
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
}
