// Packed elements are converted by gfx950's instructions, by arithmetic elsewhere.

// RUN: sed 's/CHIP/gfx950/' %s > %t.950
// RUN: ckmlir-opt %t.950 --ck-lower-fragments | filecheck %s --check-prefixes CHECK,GFX950
// RUN: sed 's/CHIP/gfx90a/' %s > %t.90a
// RUN: ckmlir-opt %t.90a --ck-lower-fragments | filecheck %s --check-prefixes CHECK,GFX90A

module attributes {ck.target = "CHIP"} {
  // CHECK-LABEL: llvm.func @from_four_bits
  // GFX950: rocdl.cvt.scalef32.pk.f32.fp4
  // GFX950: rocdl.cvt.scalef32.pk.f32.fp4
  // GFX950-NOT: arith.mulf
  // GFX90A-NOT: rocdl.cvt
  // GFX90A: arith.mulf %{{.*}} : vector<4xf32>
  // CHECK: llvm.return
  func.func @from_four_bits(%x: vector<2xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "fp4"} : (vector<2xi8>) -> vector<4xf32>
    return
  }

  // Integers without a sign are multiples of the least denormal of fp8, and those with one 8 more. Chips
  // without an instruction that rounds to bf16 take the upper halves.
  // CHECK-LABEL: llvm.func @from_integers
  // GFX950-COUNT-4: rocdl.cvt.scalef32.pk.f32.fp8
  // GFX950: arith.truncf
  // GFX90A: arith.sitofp
  // GFX90A-NOT: arith.minsi
  // GFX90A: llvm.return
  func.func @from_integers(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "i4"} : (vector<4xi8>) -> vector<8xf32>
    %1 = "ck.convert"(%0) : (vector<8xf32>) -> vector<8xbf16>
    return
  }

  // Sums of them may have more digits.
  // CHECK-LABEL: llvm.func @from_sums
  // GFX90A: arith.sitofp
  // GFX90A: arith.minsi
  // CHECK: llvm.return
  func.func @from_sums(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "i4"} : (vector<4xi8>) -> vector<8xf32>
    %1 = arith.addf %0, %0 : vector<8xf32>
    %2 = "ck.convert"(%1) : (vector<8xf32>) -> vector<8xbf16>
    return
  }

  // Each conversion waits for the one before, which wrote a part of the same register.
  // CHECK-LABEL: llvm.func @to_four_bits
  // GFX950: llvm.inline_asm {{.*}}s_nop 0\0Av_cvt_scalef32_pk_fp4_f32 $0, $1, $2, 1.0\0As_nop 0\0Av_cvt_scalef32_pk_fp4_f32 $0, $3, $4, 1.0 op_sel:[0,0,1,0]
  // GFX90A: arith.minnumf
  // GFX90A: arith.addf
  // GFX90A: arith.subf
  // CHECK: llvm.return
  func.func @to_four_bits(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.pack_fragment"(%x) {format = "fp4"} : (vector<4xf32>) -> vector<2xi8>
    return
  }

  // A byte's two integers become f16 where they are, 1024 more, or 1024 and 16 times as large: three instructions each.
  // CHECK-LABEL: llvm.func @integers_to_f16
  // CHECK-NOT: sitofp
  // CHECK: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK: llvm.inline_asm {{.*}}"v_bfi_b32
  // CHECK: math.fma %{{.*}} : vector<2xf16>
  // CHECK-COUNT-3: math.fma %{{.*}} : vector<2xf16>
  // CHECK-NOT: {{arith.(addf|shrui)|math.fma|llvm.amdgcn.perm}}
  // CHECK: llvm.return
  func.func @integers_to_f16(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "i4"} : (vector<4xi8>) -> vector<8xf16>
    return
  }

  // Four integers an instruction become i8, a byte for each of even and of odd number; then they are put in order.
  // CHECK-LABEL: llvm.func @integers_to_i8
  // CHECK-NOT: sitofp
  // CHECK-COUNT-2: arith.addi
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-NOT: llvm.amdgcn.perm
  // CHECK: llvm.return
  func.func @integers_to_i8(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "i4"} : (vector<4xi8>) -> vector<8xi8>
    return
  }

  // 8-bit floats are the exclusive or of what two tables of eight have of their codes, one of which knows what the other
  // makes of codes beyond eight.
  // CHECK-LABEL: llvm.func @integers_to_f8
  // CHECK-NOT: sitofp
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-COUNT-1: arith.xori
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-COUNT-1: arith.xori
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-NOT: llvm.amdgcn.perm
  // CHECK-NOT: arith.xori
  // CHECK: llvm.return
  func.func @integers_to_f8(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "i4"} : (vector<4xi8>) -> vector<8xf8E4M3FNUZ>
    return
  }

  // 16 times as much as i8 is the upper half of a byte: a shift, a mask each for even and odd numbers, and their order.
  // CHECK-LABEL: llvm.func @sixteen_times_integers
  // CHECK-COUNT-1: arith.shli
  // CHECK-COUNT-2: arith.andi
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-NOT: {{arith.(addi|xori|shli|andi)|llvm.amdgcn.perm|inline_asm}}
  // CHECK: llvm.return
  func.func @sixteen_times_integers(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "i4", exponent = 4} : (vector<4xi8>) -> vector<8xi8>
    return
  }

  // As denormals of fp8: magnitudes of all eight at once, then signs beside those of four.
  // CHECK-LABEL: llvm.func @integers_to_denormals
  // CHECK: arith.muli %{{.*}} : vector<2xi16>
  // CHECK: llvm.inline_asm {{.*}}"v_xad_u32
  // CHECK-COUNT-2: llvm.inline_asm {{.*}}"v_bfi_b32
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-NOT: {{llvm.amdgcn.perm|inline_asm}}
  // CHECK: llvm.return
  func.func @integers_to_denormals(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "i4", exponent = -10} : (vector<4xi8>) -> vector<8xf8E4M3FNUZ>
    return
  }

  // The upper bytes of four numbers of e2m1 come from a table with one instruction; their lower bytes are 0 in f16.
  // CHECK-LABEL: llvm.func @four_bits_to_f16
  // CHECK-NOT: rocdl.cvt
  // CHECK-COUNT-6: llvm.call_intrinsic "llvm.amdgcn.perm"
  // CHECK-NOT: llvm.amdgcn.perm
  // CHECK: llvm.return
  func.func @four_bits_to_f16(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "fp4"} : (vector<4xi8>) -> vector<8xf16>
    return
  }

  // 32 elements of six bits an instruction; fewer by arithmetic.
  // CHECK-LABEL: llvm.func @six_bits
  // GFX950: rocdl.cvt.scalef32.pk32.f32.bf6
  // GFX950: rocdl.cvt.scalef32.2xpk16.bf6.f32
  // GFX950: arith.mulf %{{.*}} : vector<16xf32>
  // GFX90A-NOT: rocdl.cvt
  // CHECK: llvm.return
  func.func @six_bits(%x: vector<24xi8>, %y: vector<12xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.unpack_fragment"(%x) {format = "bf6"} : (vector<24xi8>) -> vector<32xf32>
    %1 = "ck.pack_fragment"(%0) {format = "bf6"} : (vector<32xf32>) -> vector<24xi8>
    %2 = "ck.unpack_fragment"(%y) {format = "fp6"} : (vector<12xi8>) -> vector<16xf32>
    return
  }

  // What turns blocks of 4 bits within a thread is masks and shifts of whole words; of 6 bits elements are cut out.
  // CHECK-LABEL: llvm.func @turned
  // CHECK: arith.andi %{{.*}} : i32
  // CHECK: arith.shli
  // CHECK: arith.andi %{{.*}} : i32
  // CHECK: arith.shrui
  // CHECK: arith.andi %{{.*}} : i32
  // CHECK: arith.andi %{{.*}} : i32
  // CHECK-NOT: arith.andi
  // CHECK: llvm.return
  func.func @turned(%x: vector<8xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.repack_fragment"(%x) {format = "u4"} : (vector<8xi8>) -> vector<8xi8>
    return
  }
}
