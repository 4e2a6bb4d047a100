// What all waves hold alike may decide about barriers: a length that memory holds, what is found at a pointer that memory
// holds, lane 0 of what every wave has read at the same place, or of what the kernel promises not to change, and an
// element of which all waves hold copies.

// RUN: ckmlir-opt %s --ck-check-schedule

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>

module attributes {ck.target = "gfx942"} {
func.func @from_memory(%p: !llvm.ptr<1>) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0 : i32
  %address = llvm.load %p invariant {alignment = 8 : i64} : !llvm.ptr<1> -> i64
  %q = llvm.inttoptr %address : i64 to !llvm.ptr<1>
  %n = llvm.load %q invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %some = arith.cmpi slt, %zero, %n : i32
  cf.cond_br %some, ^yes(%zero : i32), ^no(%n : i32)
^yes(%a: i32):
  "ck.barrier"() : () -> ()
  cf.br ^no(%a : i32)
^no(%b: i32):
  %more = arith.cmpi slt, %b, %n : i32
  cf.cond_br %more, ^twice, ^end
^twice:
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}

func.func @lane_zero(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0.0 : f32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %e = vector.extract %t[0] : f32 from vector<1xf32>
  %u = "ck.first_lane"(%e) : (f32) -> f32
  %some = arith.cmpf ogt, %u, %zero : f32
  cf.cond_br %some, ^yes, ^end
^yes:
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
// Nobody knows where the store goes.
func.func @promised(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0.0 : f32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  %to = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %there = "ck.make_window"(%to, %n) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>, invariant} : (!window) -> vector<1xf32>
  "ck.store_fragment"(%t, %there) {distribution = "r: 2@wave, d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %e = vector.extract %t[0] : f32 from vector<1xf32>
  %u = "ck.first_lane"(%e) : (f32) -> f32
  %some = arith.cmpf ogt, %u, %zero : f32
  cf.cond_br %some, ^yes, ^end
^yes:
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}

// Each thread has a place of its own, and makes of it what all have: here the exchange between waves is left out. Memory
// is stored to, but not what was read.
func.func @copies(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32) attributes {ck.waves = 2 : i32} {
  %zero = arith.constant 0.0 : f32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  %to = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %there = "ck.make_window"(%to, %n) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "r: 2@lane, d0: 2@wave 32@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  "ck.store_fragment"(%t, %there) {distribution = "r: 2@lane, d0: 2@wave 32@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %e = vector.extract %t[0] : f32 from vector<1xf32>
  %u = "ck.first_lane"(%e) {copies} : (f32) -> f32
  %some = arith.cmpf ogt, %u, %zero : f32
  cf.cond_br %some, ^yes, ^end
^yes:
  "ck.barrier"() : () -> ()
  cf.br ^end
^end:
  return
}
}
