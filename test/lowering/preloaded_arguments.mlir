// A kernel's first arguments are in scalar registers where it begins, as many as lie in the 14 dwords that chips bring
// there. The first argument that does not fit, or is not whole dwords, ends them. A kernel with many arguments has all of
// them in memory.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  // CHECK-LABEL: llvm.func @all
  // CHECK-SAME: (%{{[a-z0-9]+}}: !llvm.ptr<1> {llvm.inreg}, %{{[a-z0-9]+}}: i32 {llvm.inreg}, %{{[a-z0-9]+}}: f32 {llvm.inreg})
  // What a kernel never reads of its launch leaves these registers to arguments.
  // CHECK-SAME: passthrough = ["amdgpu-no-dispatch-ptr", "amdgpu-no-queue-ptr", "amdgpu-no-dispatch-id"{{[],]}}
  func.func @all(%p: !llvm.ptr<1>, %n: i32, %f: f32) attributes {ck.waves = 1 : i32} {
    return
  }

  // Six pointers and two numbers are 14 dwords; the next number lies behind them.
  // CHECK-LABEL: llvm.func @first
  // CHECK-SAME: i32 {llvm.inreg}, %{{[a-z0-9]+}}: i32 {llvm.inreg}, %{{[a-z0-9]+}}: i32)
  func.func @first(%a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %c: !llvm.ptr<1>, %d: !llvm.ptr<1>, %e: !llvm.ptr<1>, %f: !llvm.ptr<1>, %m: i32, %n: i32, %k: i32) attributes {ck.waves = 1 : i32} {
    return
  }

  // A pointer lies at a multiple of eight bytes: the last but one dword stays empty, and nothing behind it fits.
  // CHECK-LABEL: llvm.func @aligned
  // CHECK-SAME: i32 {llvm.inreg}, %{{[a-z0-9]+}}: !llvm.ptr<1>, %{{[a-z0-9]+}}: i32)
  func.func @aligned(%a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %c: !llvm.ptr<1>, %d: !llvm.ptr<1>, %e: !llvm.ptr<1>, %f: !llvm.ptr<1>, %m: i32, %g: !llvm.ptr<1>, %n: i32) attributes {ck.waves = 1 : i32} {
    return
  }

  // CHECK-LABEL: llvm.func @narrow
  // CHECK-SAME: i32 {llvm.inreg}, %{{[a-z0-9]+}}: f16, %{{[a-z0-9]+}}: i32)
  func.func @narrow(%n: i32, %f: f16, %m: i32) attributes {ck.waves = 1 : i32} {
    return
  }

  // CHECK-LABEL: llvm.func @many
  // CHECK-SAME: (%{{[a-z0-9]+}}: i32, %{{[a-z0-9]+}}: vector<64xf32>)
  func.func @many(%n: i32, %x: vector<64xf32>) attributes {ck.waves = 1 : i32} {
    return
  }
}
