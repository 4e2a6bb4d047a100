// A schedule that says how many waves a SIMD is to have registers for says so to LLVM; others leave that to it.

// RUN: ckmlir-opt %s --ck-pipeline-loops --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @told
  // CHECK-SAME: "amdgpu-waves-per-eu", "2"
  func.func @told(%n: i32) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
    } {ck.schedule = "schedule s 1; occupancy 2"}
    return
  }

  // CHECK-LABEL: llvm.func @left
  // CHECK-NOT: amdgpu-waves-per-eu
  func.func @left(%n: i32) attributes {ck.waves = 4 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
    } {ck.schedule = "schedule s 1"}
    return
  }
}
