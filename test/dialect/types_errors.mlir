// A type whose parameters are malformed is reported by the first operation that meets it, in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

func.func @lengths(%x: f32) {
  // expected-error@+1 {{'ck.splat' lengths are written [128, 64], not 16 : i64}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<16, f32, "?">
  return
}

// -----

func.func @no_integers(%x: f32) {
  // expected-error@+1 {{'ck.splat' lengths are integers, not "a"}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<["a"], f32, "?">
  return
}

// -----

func.func @not_positive(%x: f32) {
  // expected-error@+1 {{'ck.splat' lengths must be positive, not [16, 0]}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[16, 0], f32, "?">
  return
}

// -----

func.func @no_lengths(%x: f32) {
  // expected-error@+1 {{'ck.splat' lengths must be positive, not []}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[], f32, "?">
  return
}

// -----

func.func @element(%x: f32) {
  // expected-error@+1 {{'ck.splat' the element must be a type, not "f32"}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], "f32", "?">
  return
}

// -----

func.func @element_type(%x: index) {
  // expected-error@+1 {{'ck.splat' index is not an element type}}
  %0 = "ck.splat"(%x) : (index) -> !ck.tile<[64], index, "?">
  return
}

// -----

func.func @distribution_no_text(%x: f32) {
  // expected-error@+1 {{'ck.splat' the distribution must be a string, not 4 : i64}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, 4>
  return
}

// -----

func.func @distribution_malformed(%x: f32) {
  // expected-error@+1 {{'ck.splat' distribution: 'banana' is not 'name: factors', e.g. 'd0: 4@wave 16@lane'}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, "banana">
  return
}

// -----

func.func @distribution_lengths(%x: f32) {
  // expected-error@+1 {{'ck.splat' the distribution covers [64], the tile has [128]}}
  %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[128], f32, "d0: 64@lane">
  return
}

// -----

func.func @operand(%x: f32) {
  %0 = builtin.unrealized_conversion_cast %x : f32 to !ck.tile<[64], f32, "banana">
  // expected-error@+1 {{'ck.cast' distribution: 'banana' is not}}
  %1 = "ck.cast"(%0) : (!ck.tile<[64], f32, "banana">) -> !ck.tile<[64], f16, "?">
  return
}

// -----

func.func @space(%p: !llvm.ptr<1>) {
  // expected-error@+1 {{'ck.make_view' unknown address space 'vram'; it is one of global, lds}}
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f16, "vram", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
  return
}

// -----

func.func @space_no_text(%p: !llvm.ptr<1>) {
  // expected-error@+1 {{'ck.make_view' the address space must be a string, not 1 : i64}}
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f16, 1, "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
  return
}

// -----

func.func @descriptor(%p: !llvm.ptr<1>) {
  // expected-error@+1 {{'ck.make_view' descriptor: in 'd0 = scale(offset)': there is no transform 'scale'; there are}}
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f16, "global", "d0 = scale(offset); view(d0)">
  return
}

// -----

func.func @bits(%p: !llvm.ptr<1>) {
  // expected-error@+1 {{'ck.make_view' memory holds elements of whole bytes, not i1}}
  %0 = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<i1, "global", "d0 = embed(offset, lengths=[64], strides=[1]); view(d0)">
  return
}

// -----

func.func @lds_bits() {
  // expected-error@+1 {{'ck.lds_alloc' memory holds elements of whole bytes, not i1}}
  %0 = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64"} : () -> !ck.lds<[64], i1>
  return
}

// -----

// Too few parameters are the parser's business.
// expected-error@+1 {{expected 3 type arguments, but had 2}}
func.func @count(%t: !ck.tile<[16], f32>)
