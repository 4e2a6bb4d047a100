// What the chip lacks, or an earlier pass has left, is refused where it stands; nothing reaches the backend.

// RUN: ckmlir-opt %s --ck-lower-fragments --split-input-file --verify-diagnostics

module attributes {ck.target = "gfx90a"} {
  func.func @fp8(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{conversion to fp8: gfx90a has no conversion between f32 and fp8 or bf8 (v_cvt_pk_fp8_f32); gfx942, gfx950 have}}
    %0 = "ck.convert"(%x) : (vector<4xf32>) -> vector<4xf8E4M3FNUZ>
    return
  }
}

// -----

module attributes {ck.target = "gfx90a"} {
  func.func @from_fp8(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %y = arith.bitcast %x : vector<4xi8> to vector<4xf8E4M3FNUZ>
    // expected-error@+1 {{conversion from fp8: gfx90a has no conversion between f32 and fp8 or bf8}}
    %0 = "ck.convert"(%y) : (vector<4xf8E4M3FNUZ>) -> vector<4xf32>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @other_format(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{f8E4M3FN is not gfx942's format of fp8, f8E4M3FNUZ}}
    %0 = "ck.convert"(%x) : (vector<4xf32>) -> vector<4xf8E4M3FN>
    return
  }
}

// -----

module attributes {ck.target = "gfx90a"} {
  func.func @mfma(%a: vector<8xi8>, %c: vector<4xi32>) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{gfx90a has no i32.16x16x32.i8; its matrix instructions for i8 x i8 are}}
    %0 = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "i32.16x16x32.i8"} : (vector<8xi8>, vector<8xi8>, vector<4xi32>) -> vector<4xi32>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @conversion(%x: vector<4xf64>) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{no conversion from f64 to f8E4M3FNUZ}}
    %0 = "ck.convert"(%x) : (vector<4xf64>) -> vector<4xf8E4M3FNUZ>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @math(%x: vector<4xf16>) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{'math.exp2' works on f32, not f16; cast first}}
    %0 = math.exp2 %x : vector<4xf16>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @tile(%x: f32) attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{'ck.splat' is still here: run the passes that split tiles and pipeline loops before ck-lower-fragments}}
    %0 = "ck.splat"(%x) : (f32) -> !ck.tile<[64], f32, "d0: 64@lane">
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  // expected-error@+1 {{ck.waves = 0: a workgroup has at least one wave}}
  func.func @no_waves() attributes {ck.waves = 0 : i32} {
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  // expected-error@+1 {{reserves 65537 bytes of LDS (ck.lds_bytes); gfx942 has 65536}}
  func.func @too_much_lds() attributes {ck.waves = 1 : i32, ck.lds_bytes = 65537 : i32} {
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  // expected-error@+1 {{32 waves are 2048 threads; a workgroup of gfx942 has at most 1024}}
  func.func @threads() attributes {ck.waves = 32 : i32} {
    return
  }
}

// -----

// expected-error@+1 {{no chip is named: put it in a gpu.module with #rocdl.target<chip = "…">, or set ck.target on its module}}
func.func @no_chip() attributes {ck.waves = 1 : i32} {
  return
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @unequal_groups() attributes {ck.waves = 3 : i32} {
    // expected-error@+1 {{3 waves cannot form 2 groups of equal size}}
    "ck.group_barrier"() {groups = 2 : i64, first = 1 : i64, last = 1 : i64} : () -> ()
    return
  }
}

// -----

!view = !ck.view<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 8], strides=[?1%8, 1]); d2 d3 = embed(d0, lengths=[?2, 3], strides=[1, 1], few=1); view(d2, d3, d1) align 8">
!window = !ck.window<f16, "global", "d0 d1 = embed(offset, lengths=[?0, 8], strides=[?1%8, 1]); d2 d3 = embed(d0, lengths=[?2, 3], strides=[1, 1], few=1); view(d2, d3, d1) align 8", [64, 1, 8]>
module attributes {ck.target = "gfx942"} {
  func.func @few(%p: !llvm.ptr<1>, %rows: i32, %pitch: i32, %positions: i32) attributes {ck.waves = 1 : i32} {
    %zero = arith.constant 0 : i32
    %v = "ck.make_view"(%p, %rows, %pitch, %positions) : (!llvm.ptr<1>, i32, i32, i32) -> !view
    %w = "ck.make_window"(%v, %zero, %zero, %zero) : (!view, i32, i32, i32) -> !window
    // expected-error@+1 {{few places of a window are seen of a dimension that is padded left, then right}}
    %0 = "ck.load_fragment"(%w) {distribution = "d0: 64@lane, d1: 1, d2: 8@y0", registers = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>} : (!window) -> vector<8xf16>
    return
  }
}

// -----

!lds = !ck.lds<[4, 64], f16>
module attributes {ck.target = "gfx942"} {
  func.func @other_waves(%x: vector<1xf16>) attributes {ck.waves = 2 : i32, ck.lds_bytes = 512 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !lds
    // expected-error@+1 {{has a distribution over 4 waves; the workgroup has 2 (ck.waves)}}
    "ck.lds_write"(%x, %l) {distribution = "d0: 4@wave, d1: 64@lane", registers = array<i32: 0>} : (vector<1xf16>, !lds) -> ()
    return
  }
}
