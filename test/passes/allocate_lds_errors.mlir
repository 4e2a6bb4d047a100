// Buffers that do not fit the chip's LDS are refused with their sizes, places and the smallest change found that would fit; so is
// a kernel whose loops are not expanded, or for which no chip is named.

// RUN: ckmlir-opt %s --ck-allocate-lds --split-input-file --verify-diagnostics

!lds = !ck.lds<[128, 64], f32>
module attributes {ck.target = "gfx942"} {
// expected-error@+1 {{needs 98304 bytes of LDS, gfx942 has 65536; 2 LDS buffers of 'a' instead of 3 would take 65536}}
func.func @a_ring(%v: vector<4xf32>) attributes {ck.waves = 1 : i32} {
  // expected-note@+1 {{'a' takes 32768 bytes at 0}}
  %x = "ck.lds_alloc"() {layout = "lengths 128x64 order 0,1 pitch 64", name = "a"} : () -> !lds
  // expected-note@+1 {{'a' takes 32768 bytes at 32768}}
  %y = "ck.lds_alloc"() {layout = "lengths 128x64 order 0,1 pitch 64", name = "a"} : () -> !lds
  // expected-note@+1 {{'a' takes 32768 bytes at 65536}}
  %z = "ck.lds_alloc"() {layout = "lengths 128x64 order 0,1 pitch 64", name = "a"} : () -> !lds
  "ck.lds_write"(%v, %x) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_write"(%v, %y) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_write"(%v, %z) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_read"(%x) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  "ck.lds_read"(%y) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  "ck.lds_read"(%z) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  return
}
}

// -----

!lds = !ck.lds<[128, 64], f32>
module attributes {ck.target = "gfx942"} {
// expected-error@+1 {{needs 131072 bytes of LDS, gfx942 has 65536; 1 LDS buffer of 'a' and 'b' each instead of 2 would take 65536}}
func.func @two_rings(%v: vector<4xf32>) attributes {ck.waves = 1 : i32} {
  // expected-note@+1 {{'a' takes 32768 bytes at 0}}
  %x = "ck.lds_alloc"() {layout = "lengths 128x64 order 0,1 pitch 64", name = "a"} : () -> !lds
  // expected-note@+1 {{'a' takes 32768 bytes at 32768}}
  %y = "ck.lds_alloc"() {layout = "lengths 128x64 order 0,1 pitch 64", name = "a"} : () -> !lds
  // expected-note@+1 {{'b' takes 32768 bytes at 65536}}
  %z = "ck.lds_alloc"() {layout = "lengths 128x64 order 0,1 pitch 64", name = "b"} : () -> !lds
  // expected-note@+1 {{'b' takes 32768 bytes at 98304}}
  %w = "ck.lds_alloc"() {layout = "lengths 128x64 order 0,1 pitch 64", name = "b"} : () -> !lds
  "ck.lds_write"(%v, %x) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_write"(%v, %y) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_write"(%v, %z) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_write"(%v, %w) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_read"(%x) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  "ck.lds_read"(%y) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  "ck.lds_read"(%z) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  "ck.lds_read"(%w) {distribution = "d0: 32@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  return
}
}

// -----

!lds = !ck.lds<[512, 64], f32>
module attributes {ck.target = "gfx90a"} {
// expected-error@+1 {{needs 131072 bytes of LDS, gfx90a has 65536; a block whose tensors have half of their elements would take 65536}}
func.func @one_large(%v: vector<4xf32>) attributes {ck.waves = 1 : i32} {
  // expected-note@+1 {{a tensor without a name takes 131072 bytes at 0}}
  %x = "ck.lds_alloc"() {layout = "lengths 512x64 order 0,1 pitch 64"} : () -> !lds
  "ck.lds_write"(%v, %x) {distribution = "d0: 128@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (vector<4xf32>, !lds) -> ()
  "ck.lds_read"(%x) {distribution = "d0: 128@y0 4@lane, d1: 16@lane 4@y1", registers = array<i32: 0, 1, 2, 3>} : (!lds) -> vector<4xf32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// expected-error@+1 {{holds loops of stages; run ck-pipeline-loops before ck-allocate-lds}}
func.func @loop(%n: i32) attributes {ck.waves = 1 : i32} {
  scf.for %i = %n to %n step %n : i32 {
  }
  return
}
}

// -----

// expected-error@+1 {{no chip is named: put it in a gpu.module with #rocdl.target<chip = "…">, or set ck.target on its module}}
func.func @nowhere() attributes {ck.waves = 1 : i32} {
  return
}

// -----

// Two workgroups of a compute unit have half of its LDS each.
module attributes {ck.target = "gfx942"} {
// expected-error@+1 {{needs 65536 bytes of LDS, gfx942 has 32768 for each of 2 workgroups of a compute unit; a block whose tensors have half of their elements would take 32768}}
func.func @two_workgroups() attributes {ck.waves = 1 : i32, ck.workgroups_a_unit = 2 : i32} {
  // expected-note@+1 {{'a' takes 65536 bytes at 0}}
  %x = "ck.lds_alloc"() {layout = "lengths 256x64 order 0,1 pitch 64", name = "a"} : () -> !ck.lds<[256, 64], f32>
  return
}
}

// -----

module attributes {ck.target = "gfx942"} {
// expected-error@+1 {{ck.workgroups_a_unit = 0: a compute unit is given at least one workgroup}}
func.func @no_workgroup() attributes {ck.waves = 1 : i32, ck.workgroups_a_unit = 0 : i32} {
  %x = "ck.lds_alloc"() {layout = "lengths 64 order 0 pitch 64", name = "a"} : () -> !ck.lds<[64], f32>
  return
}
}
