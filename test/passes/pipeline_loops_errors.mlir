// A schedule that would change what the loop computes is refused; the message names stages, and both operations' lines.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file --verify-diagnostics

!lds = !ck.lds<[64], i32>
func.func @overwritten(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "to_lds", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %v = vector.broadcast %i {ck.stage = "to_lds"} : i32 to vector<1xi32>
    // expected-error@+1 {{schedule 's' overwrites an LDS tensor that is still to be read: stage 'to_lds' writes 1 iterations ahead of the read into 1 buffer; 2 are enough in any order}}
    "ck.lds_write"(%v, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    // expected-note@+1 {{the read is here}}
    %r = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead to_lds 1"}
  return
}

// -----

!lds = !ck.lds<[64], i32>
func.func @read_too_early(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "to_lds", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
    %v = vector.broadcast %i {ck.stage = "to_lds"} : i32 to vector<1xi32>
    // expected-note@+1 {{the write is here}}
    "ck.lds_write"(%v, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    // expected-error@+1 {{schedule 's' reads an LDS tensor before it is written}}
    %r = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead from_lds 1; buffers 2"}
  return
}

// -----

!view = !ck.view<i32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<i32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
func.func @used_before(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], i32>
  scf.for %i = %zero to %n step %one : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    // expected-note@+1 {{the value is computed here}}
    %t = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xi32>
    // expected-error@+1 {{schedule 's' runs this before what it uses (stage 'to_lds' 1 ahead, stage 'load' 0 ahead)}}
    "ck.lds_write"(%t, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !ck.lds<[64], i32>) -> ()
  } {ck.schedule = "schedule s 1; ahead to_lds 1"}
  return
}

// -----

!view = !ck.view<i32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<i32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
func.func @used_before_and_of_no_stage(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], i32>
  scf.for %i = %zero to %n step %one : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
    // expected-note@+1 {{the value is computed here}}
    %t = "ck.load_fragment"(%w) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xi32>
    // expected-error@+1 {{schedule 's' runs this before what it uses (stage 'to_lds' 1 ahead, what is of no stage 0 ahead)}}
    "ck.lds_write"(%t, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !ck.lds<[64], i32>) -> ()
  } {ck.schedule = "schedule s 1; ahead to_lds 1"}
  return
}

// -----

!view = !ck.view<i32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<i32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
func.func @store_ahead(%p: !llvm.ptr<1>, %n: i32, %x: vector<1xi32>) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %one : i32 {
    %w = "ck.make_window"(%v, %i) {ck.stage = "store"} : (!view, i32) -> !window
    // expected-error@+1 {{'ck.store_fragment' in stage 'store' cannot run ahead: its effect would happen twice}}
    "ck.store_fragment"(%x, %w) {ck.stage = "store", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !window) -> ()
  } {ck.schedule = "schedule s 1; ahead store 1"}
  return
}

// -----

func.func @unknown_stage(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' speaks of stage 'load'; the loop has math}}
  scf.for %i = %zero to %n step %n : i32 {
    %x = arith.addi %i, %i {ck.stage = "math"} : i32
  } {ck.schedule = "schedule s 1; ahead load 1"}
  return
}

// -----

func.func @empty_stages_that_are_no_names(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{ck.empty_stages is an array of names, not [1]}}
  scf.for %i = %zero to %n step %n : i32 {
    %x = arith.addi %i, %i {ck.stage = "math"} : i32
  } {ck.empty_stages = [1], ck.schedule = "schedule s 1; ahead load 1"}
  return
}

// -----

func.func @stage_that_is_not_among_the_empty_ones(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' speaks of stage 'lode'; the loop has load, math}}
  scf.for %i = %zero to %n step %n : i32 {
    %x = arith.addi %i, %i {ck.stage = "math"} : i32
  } {ck.empty_stages = ["load"], ck.schedule = "schedule s 1; ahead lode 1"}
  return
}

// -----

func.func @no_schedule(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule, line 1: unknown statement 'as'; there are schedule, ahead, path, buffers, step, order, lead, spacing, elements, reads, fences, mix, priority, groups, unroll}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = "as fast as you can"}
  return
}

// -----

func.func @no_text(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{ck.schedule is the text of a schedule, not 1 : i64}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = 1 : i64}
  return
}

// -----

func.func @outer(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' pipelines a loop that holds another loop; only innermost loops can be}}
  scf.for %i = %zero to %n step %n : i32 {
    scf.for %j = %zero to %n step %n : i32 {
    }
  } {ck.schedule = "schedule s 1; buffers 2"}
  return
}

// -----

func.func @absent_fragment(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' speaks of r.0-1; stage 'r' has 1 fragments, numbered from 0}}
  scf.for %i = %zero to %n step %n : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], i32>
    %x = "ck.lds_read"(%l) {ck.stage = "r", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], i32>) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; step r.0-1"}
  return
}

// -----

func.func @absent_tensor(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' speaks of LDS tensor 'k'; the loop has none with a name}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = "schedule s 1; buffers 1, k 2"}
  return
}

// -----

func.func @too_many_steps(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' needs 21 steps in its steady loop, so that buffers and registers rotate without copies (what rotates takes 3, 7 turns); at most 16 make sense, choose numbers that divide each other}}
  scf.for %i = %zero to %n step %n : i32 {
    %l = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], i32>
    %v = vector.broadcast %i {ck.stage = "w"} : i32 to vector<1xi32>
    "ck.lds_write"(%v, %l) {ck.stage = "w", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !ck.lds<[64], i32>) -> ()
    %x = "ck.lds_read"(%l) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], i32>) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead w 1; buffers 3; unroll 7"}
  return
}

// -----

func.func @no_chip(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' asks for mix hot_loop, which depends on the chip; name one}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = "schedule s 1; mix hot_loop"}
  return
}

// -----

func.func @other_version(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule, line 1: a schedule begins with 'schedule NAME 1', not 'schedule s 2' (this format has one version)}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = "schedule s 2"}
  return
}

// -----

!lds = !ck.lds<[64], i32>
func.func @no_such_tensor(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-error@+1 {{schedule 's' runs 'to_lds.k' ahead; the loop has to_lds.tile, from_lds.tile}}
  scf.for %i = %zero to %n step %one : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "to_lds", layout = "lengths 64 order 0 pitch 64", name = "tile"} : () -> !lds
    %v = vector.broadcast %i {ck.stage = "to_lds"} : i32 to vector<1xi32>
    "ck.lds_write"(%v, %l) {ck.stage = "to_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xi32>, !lds) -> ()
    %r = "ck.lds_read"(%l) {ck.stage = "from_lds", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xi32>
  } {ck.schedule = "schedule s 1; ahead to_lds.k 1"}
  return
}

// -----

// An update stands before what fills the tensor.
func.func @update_first(%n: i32, %v: vector<1xf32>, %p: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %i = %zero to %n step %step : i32 {
    %a = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], f32>
    // expected-note@+1 {{the other access is here}}
    "ck.lds_write"(%v, %a) {ck.stage = "fill", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
    // expected-error@+1 {{schedule 's' runs this before another access to the same LDS tensor}}
    "ck.lds_update_fragment"(%v, %a, %p) {ck.stage = "add", axis = 0 : i64, distribution = "d0: 64@lane", kind = "add", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>, i32) -> ()
    %r = "ck.lds_read"(%a) {ck.stage = "take", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!ck.lds<[64], f32>) -> vector<1xf32>
  } {ck.schedule = "schedule s 1; step add, fill, take"}
  return
}

// -----

// What is filled for the next iteration is updated in this one.
func.func @one_buffer(%n: i32, %v: vector<1xf32>, %p: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  scf.for %i = %zero to %n step %step : i32 {
    %a = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], f32>
    // expected-error@+1 {{schedule 's' overwrites an LDS tensor that is still to be read: stage 'fill' writes 1 iterations ahead of the read into 1 buffer; 2 are enough in any order}}
    "ck.lds_write"(%v, %a) {ck.stage = "fill", distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>) -> ()
    // expected-note@+1 {{the read is here}}
    %f = "ck.lds_update_fragment"(%v, %a, %p) {ck.stage = "add", axis = 0 : i64, distribution = "d0: 64@lane", kind = "add", registers = array<i32: 0>} : (vector<1xf32>, !ck.lds<[64], f32>, i32) -> vector<1xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1"}
  return
}

// -----

// What is loaded and written as it is would be a copy, if ck-choose-paths had run.
!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!lds = !ck.lds<[64], f32>

module attributes {ck.target = "gfx942"} {
  func.func @loaded(%p: !llvm.ptr<1> {llvm.noalias}, %q: !llvm.ptr<1> {llvm.noalias}, %n: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
    %out = "ck.make_view"(%q, %n) : (!llvm.ptr<1>, i32) -> !view
    scf.for %i = %zero to %n step %step : i32 {
      %w = "ck.make_window"(%v, %i) {ck.stage = "load"} : (!view, i32) -> !window
      %a = "ck.load_fragment"(%w) {ck.stage = "load", distribution = "d0: 64@lane", registers = array<i32: 0>} : (!window) -> vector<1xf32>
      %lds = "ck.lds_alloc"() {name = "a", layout = "lengths 64 order 0 pitch 64"} : () -> !lds
      // expected-error@+1 {{schedule 's' takes 'a' direct, but it comes through registers; ck-choose-paths has to run on the tiles}}
      "ck.lds_write"(%a, %lds) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !lds) -> ()
      %b = "ck.lds_read"(%lds) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (!lds) -> vector<1xf32>
      %ow = "ck.make_window"(%out, %i) : (!view, i32) -> !window
      "ck.store_fragment"(%b, %ow) {distribution = "d0: 64@lane", registers = array<i32: 0>} : (vector<1xf32>, !window) -> ()
    } {ck.schedule = "schedule s 1; ahead load 1; path direct"}
    return
  }
}
