// A conversion becomes what the chip has: packed instructions, or arithmetic that rounds and saturates the same.

// RUN: sed 's/CHIP/gfx950/' %s > %t.950
// RUN: ckmlir-opt %t.950 --ck-lower-fragments | filecheck %s --check-prefixes CHECK,GFX950
// RUN: sed 's/CHIP/gfx942/; s/f8E4M3FN\b/f8E4M3FNUZ/g' %s > %t.942
// RUN: ckmlir-opt %t.942 --ck-lower-fragments | filecheck %s --check-prefixes CHECK,GFX942

module attributes {ck.target = "CHIP"} {
  // CHECK-LABEL: llvm.func @half
  // CHECK: arith.truncf %{{.*}} : vector<4xf32> to vector<4xf16>
  // CHECK-NEXT: llvm.return
  func.func @half(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xf32>) -> vector<4xf16>
    return
  }

  // gfx950 has an instruction for bf16; elsewhere integers round to nearest even and keep NaN, without comparing and
  // without taking signs off: two minima limit NaN of both.
  // CHECK-LABEL: llvm.func @bfloat
  // GFX950: arith.truncf %{{.*}} : vector<4xf32> to vector<4xbf16>
  // GFX942-NOT: arith.truncf
  // GFX942: llvm.call_intrinsic "llvm.canonicalize"
  // GFX942: llvm.bitcast %{{.*}} : vector<4xf32> to vector<4xi32>
  // GFX942-NOT: arith.cmp
  // GFX942: arith.minsi
  // GFX942: arith.minui
  // GFX942-NOT: arith.ori
  // GFX942: arith.constant dense<32767> : vector<4xi32>
  // GFX942-NOT: arith.cmp
  // GFX942: arith.trunci %{{.*}} : vector<4xi32> to vector<4xi16>
  // CHECK: llvm.return
  func.func @bfloat(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xf32>) -> vector<4xbf16>
    return
  }

  // What is promised to be bounded is rounded by two packed multiply-adds, where the chip has no instruction for bf16.
  // CHECK-LABEL: llvm.func @bounded(
  // GFX950: arith.truncf %{{.*}} : vector<4xf32> to vector<4xbf16>
  // GFX942-COUNT-4: math.fma %{{.*}} : vector<2xf32>
  // GFX942-NOT: arith.cmp
  // GFX942-NOT: arith.minui
  // GFX942-NOT: llvm.amdgcn.perm
  // GFX942: vector.shuffle
  // CHECK: llvm.return
  func.func @bounded(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) {bounded} : (vector<4xf32>) -> vector<4xbf16>
    return
  }

  // An instruction puts two of them together in a kernel that writes such elements to LDS alone.
  // CHECK-LABEL: llvm.func @bounded_alone
  // GFX942-COUNT-4: math.fma %{{.*}} : vector<2xf32>
  // GFX942-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.perm"
  // GFX942-NOT: vector.shuffle
  // CHECK: llvm.return
  func.func @bounded_alone(%x: vector<4xf32>) attributes {ck.waves = 1 : i32, ck.lds_bytes = 512 : i64} {
    %l = "ck.lds_alloc"() {layout = "lengths 64x4 order 0,1 pitch 4", offset = 0 : i64} : () -> !ck.lds<[64, 4], bf16>
    %0 = "ck.convert"(%x) {bounded} : (vector<4xf32>) -> vector<4xbf16>
    %1 = vector.extract_strided_slice %0 {offsets = [0], sizes = [1], strides = [1]} : vector<4xbf16> to vector<1xbf16>
    "ck.lds_write"(%1, %l) {distribution = "d0: 64@lane, d1: 4@y0", registers = array<i32: 0>} : (vector<1xbf16>, !ck.lds<[64, 4], bf16>) -> ()
    return
  }

  // What is promised not to be too large either is not limited on its way to 8 bits.
  // CHECK-LABEL: llvm.func @bounded_eight_bits
  // CHECK-NOT: arith.minnumf
  // CHECK-NOT: arith.maxnumf
  // CHECK-NOT: arith.cmpf
  // CHECK-COUNT-2: rocdl.cvt.pk.fp8.f32
  // CHECK: llvm.return
  func.func @bounded_eight_bits(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) {bounded} : (vector<4xf32>) -> vector<4xf8E4M3FN>
    return
  }

  // A bf16 is extended as such, but by integers in a kernel that also makes f16: LLVM would compute in f16 what goes there.
  // CHECK-LABEL: llvm.func @from_bfloat
  // CHECK: arith.extf %{{.*}} : vector<4xbf16> to vector<4xf32>
  // CHECK: llvm.return
  func.func @from_bfloat(%x: vector<4xbf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xbf16>) -> vector<4xf32>
    return
  }

  // CHECK-LABEL: llvm.func @from_bfloat_to_half
  // CHECK-NOT: arith.extf
  // CHECK: llvm.bitcast %{{.*}} : vector<4xbf16> to vector<4xi16>
  // CHECK: arith.extui
  // CHECK: arith.shli
  // CHECK: llvm.bitcast %{{.*}} : vector<4xi32> to vector<4xf32>
  // CHECK: arith.truncf %{{.*}} : vector<4xf32> to vector<4xf16>
  // CHECK: llvm.return
  func.func @from_bfloat_to_half(%x: vector<4xbf16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xbf16>) -> vector<4xf32>
    %1 = "ck.convert"(%0) : (vector<4xf32>) -> vector<4xf16>
    return
  }

  // Two elements an instruction, clamped before to the largest value of the chip's format.
  // CHECK-LABEL: llvm.func @eight_bit
  // GFX950: arith.constant dense<4.480000e+02> : vector<4xf32>
  // GFX942: arith.constant dense<2.400000e+02> : vector<4xf32>
  // CHECK: arith.minnumf
  // CHECK: arith.maxnumf
  // CHECK: arith.cmpf uno
  // CHECK: rocdl.cvt.pk.fp8.f32 %{{.*}}, %{{.*}} -> %{{.*}}[false]
  // CHECK: rocdl.cvt.pk.fp8.f32 %{{.*}}, %{{.*}} -> %{{.*}}[true]
  // CHECK-NOT: rocdl.cvt
  // CHECK: llvm.return
  func.func @eight_bit(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xf32>) -> vector<4xf8E4M3FN>
    return
  }

  // CHECK-LABEL: llvm.func @from_eight_bit
  // CHECK: rocdl.cvt.pk.f32.fp8 %{{.*}}[false]
  // CHECK: rocdl.cvt.pk.f32.fp8 %{{.*}}[true]
  // CHECK: arith.truncf %{{.*}} : vector<4xf32> to vector<4xf16>
  func.func @from_eight_bit(%x: vector<4xi8>) attributes {ck.waves = 1 : i32} {
    %y = arith.bitcast %x : vector<4xi8> to vector<4xf8E4M3FN>
    %0 = "ck.convert"(%y) : (vector<4xf8E4M3FN>) -> vector<4xf16>
    return
  }

  // To i32 the instruction saturates by itself; what is out of range, and NaN, is defined for LLVM too.
  // CHECK-LABEL: llvm.func @whole
  // CHECK: math.roundeven
  // CHECK: llvm.call_intrinsic "llvm.fptosi.sat"
  // CHECK-NOT: fptosi
  func.func @whole(%x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xf32>) -> vector<4xi32>
    return
  }

  // i8 saturates, from floats by the conversion to i32 and then like wider integers; NaN becomes 0 without a comparison.
  // Three instructions put four bytes together; those of integers LLVM puts together, which may be a word's already.
  // CHECK-LABEL: llvm.func @saturate
  // CHECK: math.roundeven
  // CHECK: llvm.call_intrinsic "llvm.fptosi.sat"
  // CHECK-NOT: arith.cmpf
  // CHECK: arith.minsi %{{.*}} : vector<4xi32>
  // CHECK: arith.maxsi %{{.*}} : vector<4xi32>
  // CHECK: llvm.amdgcn.perm
  // CHECK: llvm.amdgcn.perm
  // CHECK: llvm.amdgcn.perm
  // CHECK-NOT: llvm.amdgcn.perm
  // CHECK: arith.minsi %{{.*}} : vector<4xi32>
  // CHECK: arith.trunci %{{.*}} : vector<4xi32> to vector<4xi8>
  // CHECK: arith.minsi %{{.*}} : vector<4xi16>
  // CHECK: arith.maxsi %{{.*}} : vector<4xi16>
  // CHECK: arith.trunci %{{.*}} : vector<4xi16> to vector<4xi8>
  func.func @saturate(%x: vector<4xf32>, %i: vector<4xi32>, %s: vector<4xi16>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xf32>) -> vector<4xi8>
    %1 = "ck.convert"(%i) : (vector<4xi32>) -> vector<4xi8>
    %2 = "ck.convert"(%s) : (vector<4xi16>) -> vector<4xi8>
    return
  }

  // Bytes become f32 as parts of words, each with its sign; three of them, which fill no word, as they are.
  // CHECK-LABEL: llvm.func @from_bytes
  // CHECK: arith.shli %{{.*}} : vector<4xi32>
  // CHECK: arith.shrsi %{{.*}} : vector<4xi32>
  // CHECK: arith.sitofp %{{.*}} : vector<4xi32> to vector<4xf32>
  // CHECK: arith.sitofp %{{.*}} : vector<3xi8> to vector<3xf32>
  func.func @from_bytes(%x: vector<4xi8>, %y: vector<3xi8>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xi8>) -> vector<4xf32>
    %1 = "ck.convert"(%y) : (vector<3xi8>) -> vector<3xf32>
    return
  }

  // What a vector repeats is converted once, not put into words before, and not extended where it was loaded.
  // CHECK-LABEL: llvm.func @from_repeated_bytes
  // CHECK-NOT: arith.sitofp
  // CHECK-COUNT-2: v_cvt_f32_i32_sdwa $0, sext($1) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0
  // CHECK-NOT: v_cvt_f32_i32_sdwa
  // CHECK-NOT: arith.sitofp
  // CHECK: vector.from_elements %[[A:.*]], %[[A]], %[[B:.*]], %[[B]] : vector<4xf32>
  func.func @from_repeated_bytes(%x: vector<2xi8>) attributes {ck.waves = 1 : i32} {
    %a = vector.extract %x[0] : i8 from vector<2xi8>
    %b = vector.extract %x[0] : i8 from vector<2xi8>
    %c = vector.extract %x[1] : i8 from vector<2xi8>
    %d = vector.extract %x[1] : i8 from vector<2xi8>
    %y = vector.from_elements %a, %b, %c, %d : vector<4xi8>
    %0 = "ck.convert"(%y) : (vector<4xi8>) -> vector<4xf32>
    return
  }

  // A condition becomes 1, not -1.
  // CHECK-LABEL: llvm.func @condition
  // CHECK: arith.extui %{{.*}} : vector<4xi1> to vector<4xi32>
  func.func @condition(%x: vector<4xi1>) attributes {ck.waves = 1 : i32} {
    %0 = "ck.convert"(%x) : (vector<4xi1>) -> vector<4xi32>
    return
  }
}
