// A product and a sum that may be rounded once are one operation of single elements where a magnitude, or a half that was
// converted, is among what they take: packed arithmetic takes neither. LLVM's vectorizers leave such kernels alone.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // CHECK-LABEL: llvm.func @distance
  // CHECK-SAME: passthrough = [{{.*}}"noimplicitfloat"]
  // CHECK: %[[SIZE:.*]] = math.absf %{{.*}} : f32
  // CHECK: %[[LESS:.*]] = arith.negf %[[SIZE]] : f32
  // CHECK: %[[LEFT:.*]] = vector.extract %arg0[0]
  // CHECK: math.fma %[[LESS]], %arg2, %[[LEFT]] : f32
  // CHECK: math.fma %{{.*}}, %arg2, %{{.*}} : f32
  // CHECK-NOT: math.fma
  // CHECK: llvm.return
  func.func @distance(%s: vector<2xf32>, %t: vector<2xf32>, %slope: f32, %a: vector<4xf16>, %c: vector<16xf32>) attributes {ck.waves = 1 : i32} {
    cf.br ^bb1
  ^bb1:
    %product = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    %size = math.absf %t : vector<2xf32>
    %slopes = vector.broadcast %slope : f32 to vector<2xf32>
    %fall = arith.mulf %size, %slopes fastmath<contract> : vector<2xf32>
    %sum = arith.subf %s, %fall fastmath<contract> : vector<2xf32>
    return
  }

  // What is taken from the product is negative there.
  // CHECK-LABEL: llvm.func @half
  // CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : f16 to f32
  // CHECK: %[[LESS:.*]] = arith.negf %[[WIDE]] : f32
  // CHECK: math.fma %{{.*}}, %arg2, %[[LESS]] : f32
  // CHECK: llvm.return
  func.func @half(%s: vector<2xf32>, %b: vector<2xf16>, %scale: f32) attributes {ck.waves = 1 : i32} {
    %wide = "ck.convert"(%b) : (vector<2xf16>) -> vector<2xf32>
    %scales = vector.broadcast %scale : f32 to vector<2xf32>
    %scaled = arith.mulf %s, %scales fastmath<contract> : vector<2xf32>
    %sum = arith.subf %scaled, %wide fastmath<contract> : vector<2xf32>
    return
  }

  // Halves are converted by it in whatever order they come.
  // CHECK-LABEL: llvm.func @spread
  // CHECK: %[[WEIGHT:.*]] = vector.extract %arg1[1]
  // CHECK: %[[LAST:.*]] = arith.extf %[[WEIGHT]] : f16 to f32
  // CHECK: math.fma %{{.*}}, %[[LAST]], %{{.*}} : f32
  // CHECK: llvm.return
  func.func @spread(%s: vector<4xf32>, %w: vector<2xf16>, %x: vector<4xf32>) attributes {ck.waves = 1 : i32} {
    %wide = "ck.convert"(%w) : (vector<2xf16>) -> vector<2xf32>
    %weights = vector.shuffle %wide, %wide [0, 0, 3, 3] : vector<2xf32>, vector<2xf32>
    %product = arith.mulf %x, %weights fastmath<contract> : vector<4xf32>
    %sum = arith.addf %s, %product fastmath<contract> : vector<4xf32>
    return
  }

  // Of halves that many products take, converting each once is less than what packed arithmetic saves: two of two, for
  // five products.
  // CHECK-LABEL: llvm.func @many
  // CHECK-NOT: math.fma
  // CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<contract> : vector<2xf32>
  // CHECK: llvm.return
  func.func @many(%s: vector<2xf32>, %x: vector<2xf16>, %w: vector<2xf16>, %a: vector<2xf32>, %b: vector<2xf32>) attributes {ck.waves = 1 : i32} {
    %left = "ck.convert"(%x) : (vector<2xf16>) -> vector<2xf32>
    %again = "ck.convert"(%x) : (vector<2xf16>) -> vector<2xf32>
    %right = "ck.convert"(%w) : (vector<2xf16>) -> vector<2xf32>
    %0 = arith.mulf %left, %a fastmath<contract> : vector<2xf32>
    %1 = arith.addf %s, %0 fastmath<contract> : vector<2xf32>
    %2 = arith.mulf %again, %b fastmath<contract> : vector<2xf32>
    %3 = arith.addf %1, %2 fastmath<contract> : vector<2xf32>
    %4 = arith.mulf %left, %right fastmath<contract> : vector<2xf32>
    %5 = arith.addf %3, %4 fastmath<contract> : vector<2xf32>
    %6 = arith.mulf %right, %a fastmath<contract> : vector<2xf32>
    %7 = arith.addf %5, %6 fastmath<contract> : vector<2xf32>
    %8 = arith.mulf %right, %b fastmath<contract> : vector<2xf32>
    %9 = arith.addf %7, %8 fastmath<contract> : vector<2xf32>
    return
  }

  // Single elements are nothing that packed arithmetic takes together.
  // CHECK-LABEL: llvm.func @alone
  // CHECK-COUNT-3: math.fma
  // CHECK: llvm.return
  func.func @alone(%s: vector<1xf32>, %x: vector<1xf16>, %a: vector<1xf32>, %b: vector<1xf32>, %c: vector<1xf32>) attributes {ck.waves = 1 : i32} {
    %wide = "ck.convert"(%x) : (vector<1xf16>) -> vector<1xf32>
    %0 = arith.mulf %wide, %a fastmath<contract> : vector<1xf32>
    %1 = arith.addf %s, %0 fastmath<contract> : vector<1xf32>
    %2 = arith.mulf %wide, %b fastmath<contract> : vector<1xf32>
    %3 = arith.addf %1, %2 fastmath<contract> : vector<1xf32>
    %4 = arith.mulf %wide, %c fastmath<contract> : vector<1xf32>
    %5 = arith.addf %3, %4 fastmath<contract> : vector<1xf32>
    return
  }

  // Halves that are converted for something else anyway are not converted again.
  // CHECK-LABEL: llvm.func @kept
  // CHECK-NOT: math.fma
  // CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<contract> : vector<2xf32>
  // CHECK: llvm.return
  func.func @kept(%h: vector<4xf16>, %s: vector<2xf32>, %scale: f32) attributes {ck.waves = 1 : i32} {
    %wide = "ck.convert"(%h) : (vector<4xf16>) -> vector<4xf32>
    %part = vector.shuffle %wide, %wide [0, 1] : vector<4xf32>, vector<4xf32>
    %square = arith.mulf %part, %part fastmath<contract> : vector<2xf32>
    %sum = arith.addf %square, %s fastmath<contract> : vector<2xf32>
    %scales = vector.broadcast %scale : f32 to vector<4xf32>
    %scaled = arith.mulf %wide, %scales fastmath<contract> : vector<4xf32>
    return
  }

  // Without a magnitude or a half packed arithmetic does it; what may not be rounded once stays two operations, and so
  // does a product that is needed elsewhere.
  // CHECK-LABEL: llvm.func @others
  // CHECK-NOT: noimplicitfloat
  // CHECK-NOT: math.fma
  // CHECK: llvm.return
  func.func @others(%s: vector<2xf32>, %t: vector<2xf32>, %u: vector<2xf32>, %a: vector<4xf16>, %c: vector<16xf32>) attributes {ck.waves = 1 : i32} {
    cf.br ^bb1
  ^bb1:
    %product = "ck.mfma"(%a, %a, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, instruction = "f32.32x32x8f16"} : (vector<4xf16>, vector<4xf16>, vector<16xf32>) -> vector<16xf32>
    %plain = arith.mulf %s, %t fastmath<contract> : vector<2xf32>
    %one = arith.addf %plain, %u fastmath<contract> : vector<2xf32>
    %size = math.absf %t : vector<2xf32>
    %exact = arith.mulf %s, %size : vector<2xf32>
    %two = arith.addf %exact, %u fastmath<contract> : vector<2xf32>
    %shared = arith.mulf %s, %size fastmath<contract> : vector<2xf32>
    %three = arith.addf %shared, %u fastmath<contract> : vector<2xf32>
    %four = arith.addf %shared, %s fastmath<contract> : vector<2xf32>
    return
  }
}
