// LDS by run-time indices: what does not fit is refused in words.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics

!tile = !ck.tile<[32, 8], f32, "?">
func.func @axis(%t: !tile, %lds: !ck.lds<[16, 8], f32>, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.lds_update' axis 2 is not one of the tile's 2 dimensions}}
  "ck.lds_update"(%t, %lds, %i) {axis = 2 : i64, kind = "add"} : (!tile, !ck.lds<[16, 8], f32>, !ck.tile<[32], i32, "?">) -> ()
  return
}

// -----

!tile = !ck.tile<[32, 8], f32, "?">
func.func @lengths(%t: !tile, %lds: !ck.lds<[16, 4], f32>, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.lds_update' the LDS tensor is [16, 4], the tile [32, 8]; they may differ along axis 0 only}}
  "ck.lds_update"(%t, %lds, %i) {axis = 0 : i64, kind = "add"} : (!tile, !ck.lds<[16, 4], f32>, !ck.tile<[32], i32, "?">) -> ()
  return
}

// -----

!tile = !ck.tile<[32], f32, "?">
func.func @element(%lds: !ck.lds<[16], f16>, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.lds_gather' the LDS tensor holds f16, the tile f32}}
  %0 = "ck.lds_gather"(%lds, %i) {axis = 0 : i64} : (!ck.lds<[16], f16>, !ck.tile<[32], i32, "?">) -> !tile
  return
}

// -----

!tile = !ck.tile<[32], f32, "?">
func.func @count(%lds: !ck.lds<[16], f32>, %i: !ck.tile<[16], i32, "?">) {
  // expected-error@+1 {{'ck.lds_gather' axis 0 has 32 entries and takes as many indices, not [16]}}
  %0 = "ck.lds_gather"(%lds, %i) {axis = 0 : i64} : (!ck.lds<[16], f32>, !ck.tile<[16], i32, "?">) -> !tile
  return
}

// -----

!tile = !ck.tile<[32], f32, "?">
func.func @index(%lds: !ck.lds<[16], f32>, %i: !ck.tile<[32], i64, "?">) {
  // expected-error@+1 {{'ck.lds_gather' indices are i32, not i64}}
  %0 = "ck.lds_gather"(%lds, %i) {axis = 0 : i64} : (!ck.lds<[16], f32>, !ck.tile<[32], i64, "?">) -> !tile
  return
}

// -----

!tile = !ck.tile<[32], i32, "?">
func.func @kind(%t: !tile, %lds: !ck.lds<[16], i32>) {
  // expected-error@+1 {{'ck.lds_update' kind 'min' is not one of store, add, max}}
  "ck.lds_update"(%t, %lds, %t) {axis = 0 : i64, kind = "min"} : (!tile, !ck.lds<[16], i32>, !tile) -> ()
  return
}

// -----

!tile = !ck.tile<[32], f16, "?">
func.func @atomic(%t: !tile, %lds: !ck.lds<[16], f16>, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.lds_update' LDS has no atomic add of f16 on every chip; there are those of i32, f32}}
  "ck.lds_update"(%t, %lds, %i) {axis = 0 : i64, kind = "add"} : (!tile, !ck.lds<[16], f16>, !ck.tile<[32], i32, "?">) -> ()
  return
}

// -----

!tile = !ck.tile<[64], f32, "d0: 64@lane">
func.func @lies(%lds: !ck.lds<[16], f32>, %i: !ck.tile<[64], i32, "d0: 32@lane.1 2@lane.0">) {
  // expected-error@+1 {{'ck.lds_gather' indices for axis 0 of 'd0: 64@lane' lie as 'd0: 64@lane', not 'd0: 32@lane.1 2@lane.0'}}
  %0 = "ck.lds_gather"(%lds, %i) {axis = 0 : i64} : (!ck.lds<[16], f32>, !ck.tile<[64], i32, "d0: 32@lane.1 2@lane.0">) -> !tile
  return
}

// -----

func.func @several(%v: vector<2xi32>, %lds: !ck.lds<[16, 2], i32>, %i: i32) {
  // expected-error@+1 {{'ck.lds_update_fragment' LDS changes one element of a lane at a time atomically, not 2}}
  "ck.lds_update_fragment"(%v, %lds, %i) {axis = 0 : i64, kind = "add", distribution = "d0: 64@lane, d1: 2@y0", registers = array<i32: 0, 1>} : (vector<2xi32>, !ck.lds<[16, 2], i32>, i32) -> ()
  return
}

// -----

func.func @along(%v: vector<2xi32>, %lds: !ck.lds<[128], i32>, %i: i32) {
  // expected-error@+1 {{'ck.lds_update_fragment' its registers follow axis 0, but have one index there}}
  "ck.lds_update_fragment"(%v, %lds, %i) {axis = 0 : i64, kind = "store", distribution = "d0: 64@lane 2@y0", registers = array<i32: 0, 1>} : (vector<2xi32>, !ck.lds<[128], i32>, i32) -> ()
  return
}

// -----

func.func @gathered_axis(%lds: !ck.lds<[16, 2], i32>, %i: i32) {
  // expected-error@+1 {{'ck.lds_gather_fragment' axis 2 is not one of 2 dimensions}}
  %0 = "ck.lds_gather_fragment"(%lds, %i) {axis = 2 : i64, distribution = "d0: 64@lane, d1: 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[16, 2], i32>, i32) -> vector<2xi32>
  return
}

// -----

func.func @gathered_registers(%lds: !ck.lds<[64, 16], i32>, %i: i32) {
  // expected-error@+1 {{'ck.lds_gather_fragment' its registers follow axis 1, but have one index there}}
  %0 = "ck.lds_gather_fragment"(%lds, %i) {axis = 1 : i64, distribution = "d0: 64@lane, d1: 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[64, 16], i32>, i32) -> vector<2xi32>
  return
}

// -----

func.func @gathered_index(%lds: !ck.lds<[16, 2], i32>, %i: i64) {
  // expected-error@+1 {{'ck.lds_gather_fragment' an index is i32, not i64}}
  %0 = "ck.lds_gather_fragment"(%lds, %i) {axis = 0 : i64, distribution = "d0: 64@lane, d1: 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[16, 2], i32>, i64) -> vector<2xi32>
  return
}

// -----

func.func @gathered_lengths(%lds: !ck.lds<[16, 4], i32>, %i: i32) {
  // expected-error@+1 {{'ck.lds_gather_fragment' the LDS tensor is [16, 4], the tile [64, 2]; they may differ along axis 0 only}}
  %0 = "ck.lds_gather_fragment"(%lds, %i) {axis = 0 : i64, distribution = "d0: 64@lane, d1: 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[16, 4], i32>, i32) -> vector<2xi32>
  return
}

// -----

func.func @gathered_element(%lds: !ck.lds<[16, 2], i32>, %i: i32) {
  // expected-error@+1 {{'ck.lds_gather_fragment' the tensor holds i32, the vector f32}}
  %0 = "ck.lds_gather_fragment"(%lds, %i) {axis = 0 : i64, distribution = "d0: 64@lane, d1: 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[16, 2], i32>, i32) -> vector<2xf32>
  return
}

// -----

func.func @gathered_not_contiguous(%i: i32) {
  %lds = "ck.lds_alloc"() {layout = "lengths 16x2 order 1,0 pitch 16"} : () -> !ck.lds<[16, 2], i32>
  // expected-error@+1 {{'ck.lds_gather_fragment' the registers follow dimension 1, in LDS dimension 0 is contiguous}}
  %0 = "ck.lds_gather_fragment"(%lds, %i) {axis = 0 : i64, distribution = "d0: 64@lane, d1: 2@y0", registers = array<i32: 0, 1>} : (!ck.lds<[16, 2], i32>, i32) -> vector<2xi32>
  return
}

// -----

func.func @nothing_back(%t: !ck.tile<[32], f32, "?">, %lds: !ck.lds<[16], f32>, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.lds_update' a store into LDS gives nothing back; kinds that give what was there before are add, max}}
  %0 = "ck.lds_update"(%t, %lds, %i) {axis = 0 : i64, kind = "store"} : (!ck.tile<[32], f32, "?">, !ck.lds<[16], f32>, !ck.tile<[32], i32, "?">) -> !ck.tile<[32], f32, "?">
  return
}

// -----

func.func @another_type(%t: !ck.tile<[32], f32, "?">, %lds: !ck.lds<[16], f32>, %i: !ck.tile<[32], i32, "?">) {
  // expected-error@+1 {{'ck.lds_update' takes !ck.tile<[32], f32, "?"> and gives what was there before as one like it, not !ck.tile<[32], i32, "?">}}
  %0 = "ck.lds_update"(%t, %lds, %i) {axis = 0 : i64, kind = "add"} : (!ck.tile<[32], f32, "?">, !ck.lds<[16], f32>, !ck.tile<[32], i32, "?">) -> !ck.tile<[32], i32, "?">
  return
}
