// A woven step that is not complete, or that reads what is not written yet, is refused with what would be right.

// RUN: ckmlir-opt %s --ck-pipeline-loops --split-input-file --verify-diagnostics

!lds = !ck.lds<[256], f16>
module attributes {ck.target = "gfx942"} {
func.func @no_product_first(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
    // expected-error@+1 {{schedule 's' weaves a step that begins with 'exp', which has no matrix instructions; a step lists each product, then what lies under it}}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1; buffers 2; order weave; step exp, product, read, fill, sum; elements 4"}
  return %r : vector<4xf32>
}
}

// -----

!lds = !ck.lds<[256], f16>
module attributes {ck.target = "gfx942"} {
func.func @unlisted(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
    // expected-error@+1 {{schedule 's' weaves a step without stage 'fill', which holds 'ck.lds_write'; list it behind the product under which it is to lie}}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1; buffers 2; order weave; step product, read, exp, sum; elements 4; lead 1"}
  return %r : vector<4xf32>
}
}

// -----

!lds = !ck.lds<[256], f16>
module attributes {ck.target = "gfx942"} {
func.func @far(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
    // expected-error@+1 {{schedule 's' reads 4 matrix instructions ahead; its step has 4}}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1; buffers 2; order weave; step product, read, fill, exp, sum; elements 4; lead 4"}
  return %r : vector<4xf32>
}
}

// -----

!lds = !ck.lds<[256], f16>
module attributes {ck.target = "gfx942"} {
func.func @wrapped(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
    // expected-error@+1 {{schedule 's' reads 'k' 2 matrix instructions ahead, so some of it 1 iterations ahead, and stage 'fill' has not written it by then; write 'ahead fill 1', or a smaller lead}}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; buffers 2; order weave; step product, read, fill, exp, sum; elements 4; lead 2"}
  return %r : vector<4xf32>
}
}

// -----

!lds = !ck.lds<[256], f16>
module {
func.func @no_chip(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
    // expected-error@+1 {{schedule 's' asks for order weave, which depends on the chip; name one}}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; ahead fill 1; buffers 2; order weave; step product, read, exp, fill, sum; elements 4; lead 1"}
  return %r : vector<4xf32>
}
}

// -----

!lds = !ck.lds<[256], f16>
module attributes {ck.target = "gfx942"} {
func.func @no_such_piece(%n: i32, %x: vector<4xf32>, %h: vector<4xf16>) -> vector<4xf32> attributes {ck.waves = 1 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant dense<0.0> : vector<4xf32>
    // expected-error@+1 {{schedule 's' speaks of exp.2-4; stage 'exp' has 4 fragments, numbered from 0}}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (vector<4xf32>) : i32 {
    %l = "ck.lds_alloc"() {ck.stage = "fill", layout = "lengths 256 order 0 pitch 256", name = "k"} : () -> !lds
    "ck.lds_write"(%h, %l) {ck.stage = "fill", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf16>, !lds) -> ()
    %a = "ck.lds_read"(%l) {ck.stage = "read", distribution = "d0: 64@lane 4@y0", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf16>
    %m0 = "ck.mfma"(%a, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m1 = "ck.mfma"(%h, %h, %start) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m2 = "ck.mfma"(%a, %h, %m0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %m3 = "ck.mfma"(%h, %h, %m1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, ck.stage = "product", instruction = "f32.16x16x16f16"} : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %e0 = math.exp2 %c {ck.stage = "exp"} : vector<4xf32>
    %e1 = math.exp2 %x {ck.stage = "exp"} : vector<4xf32>
    %s0 = arith.addf %e0, %c {ck.stage = "exp"} : vector<4xf32>
    %s1 = arith.addf %e1, %s0 {ck.stage = "exp"} : vector<4xf32>
    %s2 = arith.addf %m2, %m3 {ck.stage = "sum"} : vector<4xf32>
    %s3 = arith.addf %s2, %s1 {ck.stage = "sum"} : vector<4xf32>
    scf.yield %s3 : vector<4xf32>
  } {ck.schedule = "schedule s 1; elements 4; step fill, read, exp.1, product, exp.0, exp.2-4, sum"}
  return %r : vector<4xf32>
}
}
