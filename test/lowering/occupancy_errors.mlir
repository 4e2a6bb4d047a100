// Waves that a schedule asks for, and that LDS or what a loop hands on has no room for, are refused before LLVM.

// RUN: ckmlir-opt %s --split-input-file --verify-diagnostics --ck-lower-fragments

module attributes {ck.target = "gfx942"} {
  // expected-error@+1 {{its schedule asks for 3 waves of a SIMD (occupancy 3); it takes 32896 bytes of LDS, with which gfx942 has room for 1: fewer LDS buffers or a smaller block take less}}
  func.func @lds() attributes {ck.waves = 4 : i32, ck.occupancy = 3 : i64, ck.lds_bytes = 32896 : i64} {
    return
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  // expected-error@+1 {{its schedule asks for 2 waves of a SIMD (occupancy 2); it hands 256 vector registers of a lane round a loop, with which gfx942 has room for 1: smaller blocks or more waves need fewer}}
  func.func @registers(%sums: vector<256xf32>) attributes {ck.waves = 4 : i32, ck.occupancy = 2 : i64} {
    cf.br ^step(%sums : vector<256xf32>)
  ^step(%carried: vector<256xf32>):
    cf.br ^step(%carried : vector<256xf32>)
  }
}

// -----

module attributes {ck.target = "gfx942"} {
  // Of five waves two lie on one SIMD, which has places for eight.
  // expected-error@+1 {{its schedule asks for 8 waves of a SIMD (occupancy 8); it has workgroups of 320 threads, with which gfx942 has room for 5: ask for at most 5}}
  func.func @uneven() attributes {ck.waves = 5 : i32, ck.occupancy = 8 : i64} {
    return
  }
}

// -----

// A workgroup of eight waves puts two on each SIMD, and five of one wave put two on one.
module attributes {ck.target = "gfx942"} {
  func.func @fits() attributes {ck.waves = 8 : i32, ck.occupancy = 2 : i64, ck.lds_bytes = 65536 : i64} {
    return
  }
  func.func @partly() attributes {ck.waves = 1 : i32, ck.occupancy = 2 : i64, ck.lds_bytes = 12800 : i64} {
    return
  }
}
