// Tile arithmetic that does not fit is refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!tile = !ck.tile<[64], f32, "d0: 64@lane">
func.func @map_shape(%t: !tile) {
  // expected-error@+1 {{'ck.map' operand !ck.tile<[64], f32, "d0: 64@lane"> and result !ck.tile<[32], f32, "?"> must have one shape and distribution}}
  %0 = "ck.map"() ({
    %x = "ck.element"(%t) : (!tile) -> f32
    "ck.yield"(%x) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !ck.tile<[32], f32, "?">
  return
}

// -----

!tile = !ck.tile<[128], f32, "d0: 2@y0 64@lane">
!other = !ck.tile<[128], f32, "d0: 64@lane 2@y0">
func.func @map_distribution(%t: !tile) {
  // expected-error@+1 {{must have one shape and distribution}}
  %0 = "ck.map"() ({
    %x = "ck.element"(%t) : (!tile) -> f32
    "ck.yield"(%x) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !other
  return
}

// -----

!tile = !ck.tile<[64], f32, "d0: 64@lane">
func.func @map_result(%t: !tile) {
  // expected-error@+1 {{'ck.map' its region yields f32 where f16 is needed}}
  %0 = "ck.map"() ({
    %x = "ck.element"(%t) : (!tile) -> f32
    "ck.yield"(%x) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !ck.tile<[64], f16, "?">
  return
}

// -----

!tile = !ck.tile<[64], f32, "d0: 64@lane">
func.func @map_arguments(%t: !tile) {
  // expected-error@+1 {{'ck.map' its region takes no arguments; it reads tiles with ck.element}}
  %0 = "ck.map"() ({
  ^bb0(%x: f32):
    "ck.yield"(%x) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> !tile
  return
}

// -----

func.func @map_empty() {
  // expected-error@+1 {{'ck.map' its region has one block, not 0}}
  %0 = "ck.map"() ({}) : () -> !ck.tile<[64], f32, "?">
  return
}

// -----

func.func @map_scalar(%x: f32) {
  // expected-error@+1 {{'ck.map' expected a tile, got f32}}
  %0 = "ck.map"() ({
    "ck.yield"(%x) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) : () -> f32
  return
}

// -----

!tile = !ck.tile<[64], f32, "d0: 64@lane">
func.func @element_outside(%t: !tile) {
  // expected-error@+1 {{'ck.element' stands inside a ck.map}}
  %x = "ck.element"(%t) : (!tile) -> f32
  return
}

// -----

!tile = !ck.tile<[64], f32, "d0: 64@lane">
func.func @element_type(%t: !tile) {
  %0 = "ck.map"() ({
    // expected-error@+1 {{'ck.element' an element of !ck.tile<[64], f32, "d0: 64@lane"> is f32, not f16}}
    %x = "ck.element"(%t) : (!tile) -> f16
    "ck.yield"(%x) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f16) -> ()
  }) : () -> !ck.tile<[64], f16, "?">
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @reduce_axis(%t: !tile) {
  // expected-error@+1 {{'ck.reduce' axis 2 is not one of the tile's 2 dimensions}}
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 2 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !ck.tile<[64], f32, "?">
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @reduce_shape(%t: !tile) {
  // expected-error@+1 {{'ck.reduce' axis 1 of [64, 2] leaves [64], not [2]}}
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !ck.tile<[2], f32, "?">
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @reduce_element(%t: !tile) {
  // expected-error@+1 {{'ck.reduce' reduces f32 to f16; cast first}}
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !ck.tile<[64], f16, "?">
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @reduce_combiner(%t: !tile) {
  // expected-error@+1 {{'ck.reduce' the combiner takes all left elements, then all right ones}}
  %0 = "ck.reduce"(%t) ({
  ^bb0(%a: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !ck.tile<[64], f32, "?">
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @reduce_counts(%t: !tile) {
  // expected-error@+1 {{'ck.reduce' 2 tiles in give as many out, not 1}}
  %0 = "ck.reduce"(%t, %t) ({
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile, !tile) -> !ck.tile<[64], f32, "?">
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @reduce_differing(%t: !tile, %u: !ck.tile<[64, 2], f16, "d0: 64@lane, d1: 2@y0">, %v: !ck.tile<[64, 2], f16, "d0: 2@y0 32@lane.1, d1: 2@lane.0">) {
  // expected-error@+1 {{'ck.reduce' its tiles must have one shape and distribution}}
  %0:2 = "ck.reduce"(%u, %v) ({
  ^bb0(%a: f16, %b: f16, %c: f16, %d: f16):
    "ck.yield"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (f16, f16) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (!ck.tile<[64, 2], f16, "d0: 64@lane, d1: 2@y0">, !ck.tile<[64, 2], f16, "d0: 2@y0 32@lane.1, d1: 2@lane.0">) -> (!ck.tile<[64], f16, "?">, !ck.tile<[64], f16, "?">)
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @scan_axis(%t: !tile) {
  // expected-error@+1 {{'ck.scan' axis 2 is not one of the tile's 2 dimensions}}
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 2 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !tile
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @scan_result(%t: !tile) {
  // expected-error@+1 {{'ck.scan' a scan keeps shape, element type and distribution}}
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !ck.tile<[64], f32, "?">
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @scan_identity(%t: !tile) {
  // expected-error@+1 {{'ck.scan' the identity is f32, not i32}}
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32, %b: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, identity = [0 : i32], operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !tile
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @scan_combiner(%t: !tile) {
  // expected-error@+1 {{'ck.scan' the combiner takes all left elements, then all right ones}}
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: f32):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (f32) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!tile) -> !tile
  return
}

// -----

!tile = !ck.tile<[64, 2], f32, "?">
func.func @scan_conditions(%t: !ck.tile<[64, 2], i1, "?">) {
  // expected-error@+1 {{'ck.scan' scans numbers, not conditions; cast them}}
  %0 = "ck.scan"(%t) ({
  ^bb0(%a: i1, %b: i1):
    "ck.yield"(%a) {operandSegmentSizes = array<i32: 1, 0, 0, 0>} : (i1) -> ()
  }) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0, 0>} : (!ck.tile<[64, 2], i1, "?">) -> !ck.tile<[64, 2], i1, "?">
  return
}

// -----

func.func @cast_shape(%t: !ck.tile<[64], f32, "?">) {
  // expected-error@+1 {{'ck.cast' a cast keeps shape and distribution}}
  %0 = "ck.cast"(%t) : (!ck.tile<[64], f32, "?">) -> !ck.tile<[32], f16, "?">
  return
}

// -----

func.func @cast_distribution(%t: !ck.tile<[128], f32, "d0: 2@y0 64@lane">) {
  // expected-error@+1 {{'ck.cast' a cast keeps shape and distribution}}
  %0 = "ck.cast"(%t) : (!ck.tile<[128], f32, "d0: 2@y0 64@lane">) -> !ck.tile<[128], f16, "d0: 64@lane 2@y0">
  return
}

// -----

func.func @broadcast_shape(%t: !ck.tile<[64], f32, "?">) {
  // expected-error@+1 {{'ck.broadcast' [64] with a new axis 0 is not [64, 2]}}
  %0 = "ck.broadcast"(%t) {axis = 0 : i64} : (!ck.tile<[64], f32, "?">) -> !ck.tile<[64, 2], f32, "?">
  return
}

// -----

func.func @broadcast_axis(%t: !ck.tile<[64], f32, "?">) {
  // expected-error@+1 {{'ck.broadcast' axis 2 is not one of the result's 2 dimensions}}
  %0 = "ck.broadcast"(%t) {axis = 2 : i64} : (!ck.tile<[64], f32, "?">) -> !ck.tile<[64, 2], f32, "?">
  return
}

// -----

func.func @broadcast_without_axis(%t: !ck.tile<[64], f32, "?">) {
  // expected-error@+1 {{'ck.broadcast' needs the attribute 'axis', an integer}}
  %0 = "ck.broadcast"(%t) : (!ck.tile<[64], f32, "?">) -> !ck.tile<[64, 2], f32, "?">
  return
}

// -----

func.func @broadcast_element(%t: !ck.tile<[64], f32, "?">) {
  // expected-error@+1 {{'ck.broadcast' broadcasts f32 to f16; cast first}}
  %0 = "ck.broadcast"(%t) {axis = 1 : i64} : (!ck.tile<[64], f32, "?">) -> !ck.tile<[64, 2], f16, "?">
  return
}

// -----

func.func @redistribute(%t: !ck.tile<[64], f32, "?">) {
  // expected-error@+1 {{'ck.redistribute' redistribution keeps shape and element}}
  %0 = "ck.redistribute"(%t) : (!ck.tile<[64], f32, "?">) -> !ck.tile<[64], f16, "d0: 64@lane">
  return
}

// -----

func.func @slice_axis(%t: !ck.tile<[64, 4], f32, "?">) {
  // expected-error@+1 {{'ck.slice' axis 2 does not exist}}
  %0 = "ck.slice"(%t) {axis = 2 : i64, start = 0 : i64} : (!ck.tile<[64, 4], f32, "?">) -> !ck.tile<[64, 2], f32, "?">
  return
}

// -----

func.func @slice_other_axis(%t: !ck.tile<[64, 4], f32, "?">) {
  // expected-error@+1 {{'ck.slice' only axis 0 may shrink: [64, 4] to [64, 2]}}
  %0 = "ck.slice"(%t) {axis = 0 : i64, start = 0 : i64} : (!ck.tile<[64, 4], f32, "?">) -> !ck.tile<[64, 2], f32, "?">
  return
}

// -----

func.func @slice_range(%t: !ck.tile<[64, 4], f32, "?">) {
  // expected-error@+1 {{'ck.slice' [3, 5) is outside an axis of 4}}
  %0 = "ck.slice"(%t) {axis = 1 : i64, start = 3 : i64} : (!ck.tile<[64, 4], f32, "?">) -> !ck.tile<[64, 2], f32, "?">
  return
}

// -----

func.func @slice_element(%t: !ck.tile<[64, 4], f32, "?">) {
  // expected-error@+1 {{'ck.slice' a slice keeps its element type}}
  %0 = "ck.slice"(%t) {axis = 1 : i64, start = 0 : i64} : (!ck.tile<[64, 4], f32, "?">) -> !ck.tile<[64, 2], f16, "?">
  return
}

// -----

func.func @coordinates_axis() {
  // expected-error@+1 {{'ck.coordinates' axis 1 is not one of 1 dimensions}}
  %0 = "ck.coordinates"() {axis = 1 : i64} : () -> !ck.tile<[64], i32, "?">
  return
}

// -----

func.func @coordinates_element() {
  // expected-error@+1 {{'ck.coordinates' coordinates are i32, not f32}}
  %0 = "ck.coordinates"() {axis = 0 : i64} : () -> !ck.tile<[64], f32, "?">
  return
}

// -----

func.func @splat(%x: f16) {
  // expected-error@+1 {{'ck.splat' a f16 cannot fill a tile of f32}}
  %0 = "ck.splat"(%x) : (f16) -> !ck.tile<[64], f32, "?">
  return
}

// -----

!a = !ck.tile<[16, 16], f16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
func.func @mma_k(%a: !a, %b: !ck.tile<[16, 32], f16, "?">, %c: !acc) {
  // expected-error@+1 {{'ck.mma' K differs: a has 16, b has 32}}
  %0 = "ck.mma"(%a, %b, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!a, !ck.tile<[16, 32], f16, "?">, !acc) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 16], f16, "?">
!acc = !ck.tile<[16, 32], f32, "?">
func.func @mma_accumulators(%a: !a, %c: !acc) {
  // expected-error@+1 {{'ck.mma' c must be [16, 16], not [16, 32]}}
  %0 = "ck.mma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!a, !a, !acc) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 16], f16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
func.func @mma_result(%a: !a, %c: !acc) {
  // expected-error@+1 {{'ck.mma' the result has the accumulator's type}}
  %0 = "ck.mma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!a, !a, !acc) -> !a
  return
}

// -----

!a = !ck.tile<[16], f16, "?">
func.func @mma_rank(%a: !a) {
  // expected-error@+1 {{'ck.mma' operands are two-dimensional: a (m, k), b (n, k), c (m, n)}}
  %0 = "ck.mma"(%a, %a, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!a, !a, !a) -> !a
  return
}

// -----

!a = !ck.tile<[16, 16], f16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
func.func @mma_unknown(%a: !a, %c: !acc) {
  // expected-error@+1 {{'ck.mma' there is no matrix instruction 'f32.17x17x17f16'; they are written like f32.32x32x8f16}}
  %0 = "ck.mma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.17x17x17f16"} : (!a, !a, !acc) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 16], bf16, "?">
!acc = !ck.tile<[16, 16], f32, "?">
func.func @mma_element(%a: !a, %c: !acc) {
  // expected-error@+1 {{'ck.mma' f32.16x16x16f16 takes f16 as a, not bf16}}
  %0 = "ck.mma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!a, !a, !acc) -> !acc
  return
}

// -----

!a = !ck.tile<[16, 16], f16, "d0: 16@lane.1, d1: 4@lane.0 4@y0">
!acc = !ck.tile<[16, 16], f32, "d0: 16@lane, d1: 4@lane 4@y0">
func.func @mma_distribution(%a: !a, %c: !acc) {
  // expected-error@+1 {{'ck.mma' C (d0: 16@lane, d1: 4@lane 4@y0) does not lie as the instruction writes it}}
  %0 = "ck.mma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.16x16x16f16 k_pack=1"} : (!a, !a, !acc) -> !acc
  return
}

// -----

func.func @uniform_of_many(%a: !ck.tile<[4, 1], f32, "?">) {
  // expected-error@+1 {{'ck.uniform' takes a tile of one element, not [4, 1]: reduce it, or slice one element out}}
  %0 = "ck.uniform"(%a) : (!ck.tile<[4, 1], f32, "?">) -> f32
  return
}

// -----

func.func @uniform_half(%a: !ck.tile<[1], f16, "?">) {
  // expected-error@+1 {{'ck.uniform' makes scalars of i1, i32, i64, f32, not f16}}
  %0 = "ck.uniform"(%a) : (!ck.tile<[1], f16, "?">) -> f16
  return
}

// -----

func.func @uniform_type(%a: !ck.tile<[1, 1], f32, "?">) {
  // expected-error@+1 {{'ck.uniform' the scalar is the element, f32, not i32}}
  %0 = "ck.uniform"(%a) : (!ck.tile<[1, 1], f32, "?">) -> i32
  return
}
