// A path that an operand cannot take is refused where the operand is put into LDS, with what stands in its way.

// RUN: ckmlir-opt %s --ck-choose-paths --split-input-file --verify-diagnostics

!tile = !ck.tile<[64], f32, "d0: 64@lane">
!lds = !ck.lds<[64], f32>
func.func @computed(%n: i32, %f: f32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  scf.for %i = %zero to %n step %n : i32 {
    %t = "ck.splat"(%f) : (f32) -> !tile
    // expected-error@+1 {{schedule 's' takes 'p' direct, but it is made by 'ck.splat'; only what is loaded and not changed has another path}}
    %l = "ck.to_lds"(%t) {name = "p"} : (!tile) -> !lds
  } {ck.schedule = "schedule s 1; path p direct"}
  return
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!tile = !ck.tile<[64], f32, "d0: 64@lane">
!lds = !ck.lds<[64], f32>
func.func @used_twice(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %n : i32 {
    %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
    %t = "ck.load"(%w) : (!window) -> !tile
    // expected-error@+1 {{schedule 's' takes 'a' straight, but its tile is also used otherwise}}
    %l = "ck.to_lds"(%t) {name = "a"} : (!tile) -> !lds
    // expected-note@+1 {{the other use is here}}
    "ck.store"(%t, %w) : (!tile, !window) -> ()
  } {ck.schedule = "schedule s 1; path straight"}
  return
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!tile = !ck.tile<[64], f32, "d0: 64@lane">
!half = !ck.tile<[64], f16, "d0: 64@lane">
func.func @computed_straight(%p: !llvm.ptr<1>, %n: i32, %f: f32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  scf.for %i = %zero to %n step %n : i32 {
    %t = "ck.splat"(%f) : (f32) -> !tile
    %h = "ck.cast"(%t) : (!tile) -> !half
    // expected-error@+1 {{schedule 's' takes 'p' straight, but it is made by 'ck.splat'; only what is loaded, and converted at most, has this path}}
    %l = "ck.to_lds"(%h) {name = "p"} : (!half) -> !ck.lds<[64], f16>
  } {ck.schedule = "schedule s 1; path p straight"}
  return
}

// -----

!view = !ck.view<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)">
!window = !ck.window<f32, "global", "d0 = embed(offset, lengths=[?0%64], strides=[1]); view(d0)", [64]>
!tile = !ck.tile<[64], f32, "d0: 64@lane">
!half = !ck.tile<[64], f16, "d0: 64@lane">
func.func @converted_twice(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  scf.for %i = %zero to %n step %n : i32 {
    %w = "ck.make_window"(%v, %i) : (!view, i32) -> !window
    %t = "ck.load"(%w) : (!window) -> !tile
    // expected-error@+1 {{schedule 's' takes 'a' straight, but its tile is also used otherwise}}
    %h = "ck.cast"(%t) : (!tile) -> !half
    %l = "ck.to_lds"(%h) {name = "a"} : (!half) -> !ck.lds<[64], f16>
    // expected-note@+1 {{the other use is here}}
    "ck.store"(%t, %w) : (!tile, !window) -> ()
  } {ck.schedule = "schedule s 1; path straight"}
  return
}

// -----

func.func @absent(%n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{schedule 's' gives 'b' a path; the loop puts into LDS: none with a name}}
  scf.for %i = %zero to %n step %n : i32 {
  } {ck.schedule = "schedule s 1; path b straight"}
  return
}

// -----

!view = !ck.view<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); view(d0, d1)">
!window = !ck.window<f32, "global", "d0 d1 = embed(offset, lengths=[?0, 64], strides=[64, 1]); view(d0, d1)", [16, 64]>
!tile = !ck.tile<[16, 64], f32, "d0: 16@y0, d1: 64@lane">
!ids = !ck.tile<[16], i32, "?">
func.func @far(%p: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %v = "ck.make_view"(%p, %n) : (!llvm.ptr<1>, i32) -> !view
  %ids = "ck.splat"(%n) : (i32) -> !ids
  scf.for %i = %zero to %n step %n : i32 {
    %w = "ck.make_window"(%v, %zero, %zero) : (!view, i32, i32) -> !window
    %t = "ck.gather"(%w, %ids) {axis = 0 : i64} : (!window, !ids) -> !tile
    // expected-error@+1 {{schedule 's' takes 'a' direct, but it is made by 'ck.gather' of a view that may end beyond 2 GiB; only what is loaded and not changed has another path}}
    %l = "ck.to_lds"(%t) {name = "a"} : (!tile) -> !ck.lds<[16, 64], f32>
  } {ck.schedule = "schedule s 1; path a direct"}
  return
}
