// Unscheduled programs with branches and with loops that decide each time whether to go on.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>

module attributes {ck.target = "gfx942"} {
func.func @choice(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %o = "ck.make_window"(%out, %n) : (!view, i32) -> !window
  %r = scf.if %some -> (vector<1xf32>) {
    %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %t, %x : vector<1xf32>
    "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    scf.yield %s : vector<1xf32>
  } else {
    scf.yield %x : vector<1xf32>
  }
  return %r : vector<1xf32>
}

func.func @in_loop(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
    %some = arith.cmpi slt, %i, %m : i32
    %d = scf.if %some -> (vector<1xf32>) {
      %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %c, %t : vector<1xf32>
      scf.yield %s : vector<1xf32>
    } else {
      %o = "ck.make_window"(%out, %i) : (!view, i32) -> !window
      "ck.store_fragment"(%c, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
      scf.yield %c : vector<1xf32>
    }
    scf.yield %d : vector<1xf32>
  }
  return %r : vector<1xf32>
}

func.func @loop_inside(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r = scf.if %some -> (vector<1xf32>) {
    %a = scf.for %i = %zero to %n step %step iter_args(%c = %x) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %c, %t : vector<1xf32>
      scf.yield %s : vector<1xf32>
    }
    scf.yield %a : vector<1xf32>
  } else {
    scf.yield %x : vector<1xf32>
  }
  return %r : vector<1xf32>
}

func.func @until(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %r:2 = scf.while (%i = %n, %c = %x) : (i32, vector<1xf32>) -> (i32, vector<1xf32>) {
    %more = arith.cmpi sgt, %i, %one : i32
    scf.condition(%more) %i, %c : i32, vector<1xf32>
  } do {
  ^bb0(%i: i32, %c: vector<1xf32>):
    %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
    %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
    %s = arith.addf %c, %t : vector<1xf32>
    %o = "ck.make_window"(%out, %i) : (!view, i32) -> !window
    "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    %half = arith.divsi %i, %two : i32
    scf.yield %half, %s : i32, vector<1xf32>
  }
  return %r#1 : vector<1xf32>
}
func.func @rounds(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %r:2 = scf.while (%i = %n, %c = %x) : (i32, vector<1xf32>) -> (i32, vector<1xf32>) {
    %more = arith.cmpi sgt, %i, %one : i32
    scf.condition(%more) %i, %c : i32, vector<1xf32>
  } do {
  ^bb0(%i: i32, %c: vector<1xf32>):
    %a = scf.for %j = %zero to %i step %step iter_args(%d = %c) -> (vector<1xf32>) : i32 {
      %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
      %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %s = arith.addf %d, %t : vector<1xf32>
      scf.yield %s : vector<1xf32>
    }
    %half = arith.divsi %i, %two : i32
    scf.yield %half, %a : i32, vector<1xf32>
  }
  return %r#1 : vector<1xf32>
}
}
