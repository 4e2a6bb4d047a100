// Control-flow graphs that do not do what the branches of Inputs/check_schedule_branches_reference.mlir do, nor its loops
// that decide each time whether to go on, are refused.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --ck-check-schedule='reference=%S/Inputs/check_schedule_branches_reference.mlir'

// A load that stands in front of the branch that decides about it.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @choice(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %o = "ck.make_window"(%out, %n) : (!view, i32) -> !window
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  // expected-error@+1 {{'ck.load_fragment' runs although the unscheduled program may not come to it: what it stands in is not entered [order]}}
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  cf.cond_br %some, ^then, ^else
^then:
  %s = arith.addf %t, %x : vector<1xf32>
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  cf.br ^join(%s : vector<1xf32>)
^else:
  cf.br ^join(%x : vector<1xf32>)
^join(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// A store that stands behind its branch.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @choice(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %o = "ck.make_window"(%out, %n) : (!view, i32) -> !window
  cf.cond_br %some, ^then, ^else
^then:
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %t, %x : vector<1xf32>
  // expected-error@+1 {{at this point 'ck.store_fragment' has not happened exactly once for every time that it is to [order]}}
  cf.br ^join(%s : vector<1xf32>)
^else:
  cf.br ^join(%x : vector<1xf32>)
^join(%r: vector<1xf32>):
  "ck.store_fragment"(%r, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  return %r : vector<1xf32>
}
}

// -----

// The parts of a branch change places.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @choice(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %o = "ck.make_window"(%out, %n) : (!view, i32) -> !window
  cf.cond_br %some, ^else, ^then
^then:
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  // expected-error@+1 {{'ck.load_fragment' runs although the unscheduled program may not come to it: what it stands in is not entered [order]}}
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %t, %x : vector<1xf32>
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  cf.br ^join(%s : vector<1xf32>)
^else:
  cf.br ^join(%x : vector<1xf32>)
^join(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// A part hands on what the other is to.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @choice(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %o = "ck.make_window"(%out, %n) : (!view, i32) -> !window
  cf.cond_br %some, ^then, ^else
^then:
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %t, %x : vector<1xf32>
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  cf.br ^join(%x : vector<1xf32>)
^else:
  cf.br ^join(%x : vector<1xf32>)
^join(%r: vector<1xf32>):
  // expected-error@+1 {{returns the result of 'func.func' of every iteration, where the result of 'scf.if' is needed [dependence]}}
  return %r : vector<1xf32>
}
}

// -----

// A store of one part is missing.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @choice(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %o = "ck.make_window"(%out, %n) : (!view, i32) -> !window
  cf.cond_br %some, ^then, ^else
^then:
  %w = "ck.make_window"(%v, %n) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %t, %x : vector<1xf32>
  // expected-error@+1 {{at this point 'ck.store_fragment' has not happened exactly once for every time that it is to [order]}}
  cf.br ^join(%s : vector<1xf32>)
^else:
  cf.br ^join(%x : vector<1xf32>)
^join(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop's value of the other way.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @in_loop(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %any = arith.cmpi slt, %zero, %n : i32
  cf.cond_br %any, ^loop(%zero, %x : i32, vector<1xf32>), ^exit(%x : vector<1xf32>)
^loop(%i: i32, %c: vector<1xf32>):
  %some = arith.cmpi slt, %i, %m : i32
  cf.cond_br %some, ^then, ^else
^then:
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  // expected-error@+1 {{'arith.addf' does not take the result of 'scf.for' that it needs [dependence]}}
  %s = arith.addf %c, %t : vector<1xf32>
  cf.br ^join(%c : vector<1xf32>)
^else:
  %o = "ck.make_window"(%out, %i) : (!view, i32) -> !window
  "ck.store_fragment"(%c, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  cf.br ^join(%c : vector<1xf32>)
^join(%d: vector<1xf32>):
  %next = arith.addi %i, %step : i32
  %more = arith.cmpi slt, %next, %n : i32
  cf.cond_br %more, ^loop(%next, %d : i32, vector<1xf32>), ^exit(%d : vector<1xf32>)
^exit(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The branch asks about the next iteration.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @in_loop(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %any = arith.cmpi slt, %zero, %n : i32
  cf.cond_br %any, ^loop(%zero, %x : i32, vector<1xf32>), ^exit(%x : vector<1xf32>)
^loop(%i: i32, %c: vector<1xf32>):
  %later = arith.addi %i, %step : i32
  %some = arith.cmpi slt, %later, %m : i32
  // expected-error@+1 {{the condition of this branch is not a comparison of a loop's index or trip count, and decides no branch of the unscheduled program; nothing is known beyond it [dependence]}}
  cf.cond_br %some, ^then, ^else
^then:
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %c, %t : vector<1xf32>
  cf.br ^join(%s : vector<1xf32>)
^else:
  %o = "ck.make_window"(%out, %i) : (!view, i32) -> !window
  "ck.store_fragment"(%c, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  cf.br ^join(%c : vector<1xf32>)
^join(%d: vector<1xf32>):
  %next = arith.addi %i, %step : i32
  %more = arith.cmpi slt, %next, %n : i32
  cf.cond_br %more, ^loop(%next, %d : i32, vector<1xf32>), ^exit(%d : vector<1xf32>)
^exit(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// A store in the part that does not run is missing.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @in_loop(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %any = arith.cmpi slt, %zero, %n : i32
  cf.cond_br %any, ^loop(%zero, %x : i32, vector<1xf32>), ^exit(%x : vector<1xf32>)
^loop(%i: i32, %c: vector<1xf32>):
  %some = arith.cmpi slt, %i, %m : i32
  cf.cond_br %some, ^then, ^else
^then:
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %c, %t : vector<1xf32>
  cf.br ^join(%s : vector<1xf32>)
^else:
  %o = "ck.make_window"(%out, %i) : (!view, i32) -> !window
  // expected-error@+1 {{at this point 'ck.store_fragment' has not happened exactly once for every time that it is to [order]}}
  cf.br ^join(%c : vector<1xf32>)
^join(%d: vector<1xf32>):
  %next = arith.addi %i, %step : i32
  %more = arith.cmpi slt, %next, %n : i32
  cf.cond_br %more, ^loop(%next, %d : i32, vector<1xf32>), ^exit(%d : vector<1xf32>)
^exit(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// A store runs whichever part does.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @in_loop(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  %any = arith.cmpi slt, %zero, %n : i32
  cf.cond_br %any, ^loop(%zero, %x : i32, vector<1xf32>), ^exit(%x : vector<1xf32>)
^loop(%i: i32, %c: vector<1xf32>):
  %some = arith.cmpi slt, %i, %m : i32
  cf.cond_br %some, ^then, ^else
^then:
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %c, %t : vector<1xf32>
  cf.br ^join(%s : vector<1xf32>)
^else:
  // expected-error@+1 {{at this point 'ck.store_fragment' has not happened exactly once for every time that it is to [order]}}
  cf.br ^join(%c : vector<1xf32>)
^join(%d: vector<1xf32>):
  %o = "ck.make_window"(%out, %i) : (!view, i32) -> !window
  "ck.store_fragment"(%c, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %next = arith.addi %i, %step : i32
  %more = arith.cmpi slt, %next, %n : i32
  cf.cond_br %more, ^loop(%next, %d : i32, vector<1xf32>), ^exit(%d : vector<1xf32>)
^exit(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop in a branch goes on too long.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @loop_inside(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.cond_br %some, ^then, ^join(%x : vector<1xf32>)
^then:
  %any = arith.cmpi slt, %zero, %n : i32
  cf.cond_br %any, ^loop(%zero, %x : i32, vector<1xf32>), ^exit(%x : vector<1xf32>)
^loop(%i: i32, %c: vector<1xf32>):
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  // expected-error@+1 {{'ck.load_fragment' runs for iteration i, which there may not be: limit the index to the last iteration's [order]}}
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %c, %t : vector<1xf32>
  %next = arith.addi %i, %step : i32
  %more = arith.cmpi sle, %next, %n : i32
  cf.cond_br %more, ^loop(%next, %s : i32, vector<1xf32>), ^exit(%s : vector<1xf32>)
^exit(%a: vector<1xf32>):
  cf.br ^join(%a : vector<1xf32>)
^join(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop runs although its branch is not taken.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @loop_inside(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %some: i1, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.cond_br %some, ^then, ^then
^then:
  %any = arith.cmpi slt, %zero, %n : i32
  // expected-error@+1 {{the condition of this branch is not a comparison of a loop's index or trip count, and decides no branch of the unscheduled program; nothing is known beyond it [dependence]}}
  cf.cond_br %any, ^loop(%zero, %x : i32, vector<1xf32>), ^exit(%x : vector<1xf32>)
^loop(%i: i32, %c: vector<1xf32>):
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %c, %t : vector<1xf32>
  %next = arith.addi %i, %step : i32
  %more = arith.cmpi slt, %next, %n : i32
  cf.cond_br %more, ^loop(%next, %s : i32, vector<1xf32>), ^exit(%s : vector<1xf32>)
^exit(%a: vector<1xf32>):
  cf.br ^join(%a : vector<1xf32>)
^join(%r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop goes on under another condition.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @until(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %more = arith.cmpi sge, %i, %one : i32
  // expected-error@+1 {{the condition of this branch is not a comparison of a loop's index or trip count, and decides no branch of the unscheduled program; nothing is known beyond it [dependence]}}
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %c : i32, vector<1xf32>)
^body(%j: i32, %d: vector<1xf32>):
  %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %d, %t : vector<1xf32>
  %o = "ck.make_window"(%out, %j) : (!view, i32) -> !window
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %half = arith.divsi %j, %two : i32
  cf.br ^decide(%half, %s : i32, vector<1xf32>)
^exit(%k: i32, %r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop hands on what it was given.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @until(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %more = arith.cmpi sgt, %i, %one : i32
  // expected-error@+1 {{the condition of this branch is not a comparison of a loop's index or trip count, and decides no branch of the unscheduled program; nothing is known beyond it [dependence]}}
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %c : i32, vector<1xf32>)
^body(%j: i32, %d: vector<1xf32>):
  %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %d, %t : vector<1xf32>
  %o = "ck.make_window"(%out, %j) : (!view, i32) -> !window
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %half = arith.divsi %j, %two : i32
  cf.br ^decide(%j, %s : i32, vector<1xf32>)
^exit(%k: i32, %r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop gives what its last iteration took.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @until(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %more = arith.cmpi sgt, %i, %one : i32
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %x : i32, vector<1xf32>)
^body(%j: i32, %d: vector<1xf32>):
  %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %d, %t : vector<1xf32>
  %o = "ck.make_window"(%out, %j) : (!view, i32) -> !window
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %half = arith.divsi %j, %two : i32
  cf.br ^decide(%half, %s : i32, vector<1xf32>)
^exit(%k: i32, %r: vector<1xf32>):
  // expected-error@+1 {{returns the result of 'func.func' of every iteration, where the result of 'scf.while' is needed [dependence]}}
  return %r : vector<1xf32>
}
}

// -----

// The loop's load stands where it decides.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @until(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
  // expected-error@+1 {{'ck.load_fragment' runs although the unscheduled program may not come to it: what it stands in is not entered [order]}}
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %more = arith.cmpi sgt, %i, %one : i32
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %c : i32, vector<1xf32>)
^body(%j: i32, %d: vector<1xf32>):
  %s = arith.addf %d, %t : vector<1xf32>
  %o = "ck.make_window"(%out, %j) : (!view, i32) -> !window
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %half = arith.divsi %j, %two : i32
  cf.br ^decide(%half, %s : i32, vector<1xf32>)
^exit(%k: i32, %r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop's store is missing.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @until(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %more = arith.cmpi sgt, %i, %one : i32
  // expected-error@+1 {{at this point 'ck.store_fragment' has not happened exactly once for every time that it is to [order]}}
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %c : i32, vector<1xf32>)
^body(%j: i32, %d: vector<1xf32>):
  %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %d, %t : vector<1xf32>
  %o = "ck.make_window"(%out, %j) : (!view, i32) -> !window
  %half = arith.divsi %j, %two : i32
  cf.br ^decide(%half, %s : i32, vector<1xf32>)
^exit(%k: i32, %r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The loop runs twice each time.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @until(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %more = arith.cmpi sgt, %i, %one : i32
  // expected-error@+1 {{the condition of this branch is not a comparison of a loop's index or trip count, and decides no branch of the unscheduled program; nothing is known beyond it [dependence]}}
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %c : i32, vector<1xf32>)
^body(%j: i32, %d: vector<1xf32>):
  %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %d, %t : vector<1xf32>
  %o = "ck.make_window"(%out, %j) : (!view, i32) -> !window
  "ck.store_fragment"(%s, %o) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
  %once = arith.divsi %j, %two : i32
  %half = arith.divsi %once, %two : i32
  cf.br ^decide(%half, %s : i32, vector<1xf32>)
^exit(%k: i32, %r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The inner loop always ends where it does the first time.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @rounds(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %more = arith.cmpi sgt, %i, %one : i32
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %c : i32, vector<1xf32>)
^body(%k: i32, %b: vector<1xf32>):
  %any = arith.cmpi slt, %zero, %k : i32
  cf.cond_br %any, ^loop(%zero, %b : i32, vector<1xf32>), ^behind(%b : vector<1xf32>)
^loop(%j: i32, %d: vector<1xf32>):
  %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
  // expected-error@+1 {{'ck.load_fragment' runs for iteration i, which there may not be: limit the index to the last iteration's [order]}}
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  %s = arith.addf %d, %t : vector<1xf32>
  %next = arith.addi %j, %step : i32
  %again = arith.cmpi slt, %next, %n : i32
  cf.cond_br %again, ^loop(%next, %s : i32, vector<1xf32>), ^behind(%s : vector<1xf32>)
^behind(%a: vector<1xf32>):
  %half = arith.divsi %k, %two : i32
  cf.br ^decide(%half, %a : i32, vector<1xf32>)
^exit(%e: i32, %r: vector<1xf32>):
  return %r : vector<1xf32>
}
}

// -----

// The inner loop starts anew each time.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
module attributes {ck.target = "gfx942"} {
func.func @rounds(%p: !llvm.ptr<1> {llvm.noalias}, %n: i32, %x: vector<1xf32>) -> vector<1xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %step = arith.constant 64 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  cf.br ^decide(%n, %x : i32, vector<1xf32>)
^decide(%i: i32, %c: vector<1xf32>):
  %more = arith.cmpi sgt, %i, %one : i32
  cf.cond_br %more, ^body(%i, %c : i32, vector<1xf32>), ^exit(%i, %c : i32, vector<1xf32>)
^body(%k: i32, %b: vector<1xf32>):
  %any = arith.cmpi slt, %zero, %k : i32
  cf.cond_br %any, ^loop(%zero, %x : i32, vector<1xf32>), ^behind(%b : vector<1xf32>)
^loop(%j: i32, %d: vector<1xf32>):
  %w = "ck.make_window"(%v, %j) : (!view, i32) -> !window
  %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
  // expected-error@+1 {{'arith.addf' does not take the result of 'scf.for' that it needs [dependence]}}
  %s = arith.addf %d, %t : vector<1xf32>
  %next = arith.addi %j, %step : i32
  %again = arith.cmpi slt, %next, %k : i32
  cf.cond_br %again, ^loop(%next, %s : i32, vector<1xf32>), ^behind(%s : vector<1xf32>)
^behind(%a: vector<1xf32>):
  %half = arith.divsi %k, %two : i32
  cf.br ^decide(%half, %a : i32, vector<1xf32>)
^exit(%e: i32, %r: vector<1xf32>):
  return %r : vector<1xf32>
}
}
