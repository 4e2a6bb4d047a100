// LDS tensors that do not lie where accesses take them to lie are refused: their addresses would be wrong.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --ck-lower-fragments

module attributes {ck.target = "gfx942"} {
  func.func @misaligned() attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
    // expected-error@+1 {{'a' begins at byte 8 of LDS; accesses take up to 16 bytes at a time, so its offset has to be a multiple of 16}}
    %l = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64", name = "a", offset = 8 : i64} : () -> !ck.lds<[4, 64], f16>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @behind() attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
    // expected-error@+1 {{'a' takes bytes 528 to 1039 of LDS; the kernel reserves 1024 (ck.lds_bytes)}}
    %l = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64", name = "a", offset = 528 : i64} : () -> !ck.lds<[4, 64], f16>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @nothing_reserved() attributes {ck.waves = 1 : i32} {
    // expected-error@+1 {{a tensor without a name takes bytes 0 to 511 of LDS; the kernel reserves 0 (ck.lds_bytes)}}
    %l = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64", offset = 0 : i64} : () -> !ck.lds<[4, 64], f16>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  func.func @no_offset() attributes {ck.waves = 1 : i32, ck.lds_bytes = 1024 : i64} {
    // expected-error@+1 {{needs the attribute 'offset', an integer: run ck-allocate-lds before ck-lower-fragments}}
    %l = "ck.lds_alloc"() {layout = "lengths 4x64 order 0,1 pitch 64"} : () -> !ck.lds<[4, 64], f16>
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  // expected-error@+1 {{attribute 'ck.lds_bytes' must be an integer, not "many"}}
  func.func @no_number() attributes {ck.waves = 1 : i32, ck.lds_bytes = "many"} {
    return
  }
}
