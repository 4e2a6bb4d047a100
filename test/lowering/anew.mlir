// A scalar that is taken anew passes through empty assembly, so that LLVM computes nothing of it before a loop.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @anew
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0" %{{.*}} : (i32) -> i32
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0" %{{.*}} : (i64) -> i64
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0" %{{.*}} : (f32) -> f32
  func.func @anew(%n: i32, %wide: i64, %x: f32) attributes {ck.waves = 1 : i32} {
    %0 = "ck.anew"(%n) : (i32) -> i32
    %1 = "ck.anew"(%wide) : (i64) -> i64
    %2 = "ck.anew"(%x) : (f32) -> f32
    return
  }
}
