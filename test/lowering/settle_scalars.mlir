// What a turn around a steady loop computes before it and needs behind it alone passes through empty assembly where it
// is computed. Nothing does that the loop needs too, or the block in front of it, that lanes have not in common, or that
// follows from another scalar and constants; and nothing in kernels with few arguments. What depends on the way that lanes
// take they have not in common.

// RUN: ckmlir-opt %s --ck-settle-scalars | filecheck %s

module {
  // CHECK-LABEL: llvm.func @turns
  llvm.func @turns(%count: i32, %scale: i32, %p: !llvm.ptr<1>,
      %m0: i64, %m1: i64, %m2: i64, %m3: i64, %m4: i64, %m5: i64, %m6: i64, %m7: i64, %m8: i64, %m9: i64, %m10: i64, %m11: i64, %m12: i64, %m13: i64, %m14: i64,
      %m15: i64, %m16: i64, %m17: i64, %m18: i64, %m19: i64, %m20: i64, %m21: i64, %m22: i64, %m23: i64, %m24: i64, %m25: i64, %m26: i64, %m27: i64, %m28: i64, %m29: i64, %m30: i64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %four = llvm.mlir.constant(4 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %lane = rocdl.workitem.id.x : i32
    llvm.br ^head(%zero, %zero : i32, i32)
  // CHECK: ^{{.*}}(%[[TURN:.*]]: i32, %[[OTHER:.*]]: i32):
  ^head(%turn: i32, %other: i32):
    // CHECK: %[[LOADED:.*]] = llvm.load
    %loaded = llvm.load %p : !llvm.ptr<1> -> i32
    // The end is 4 times a sum: the sum passes through, the product does not.
    // CHECK: %[[SUM:.*]] = llvm.add %[[LOADED]], %[[TURN]] : i32
    // CHECK-NEXT: %[[FIRST:.*]] = rocdl.readfirstlane %[[SUM]] : i32
    // CHECK-NEXT: %[[SETTLED:.*]] = llvm.inline_asm has_side_effects "", "=s,0" %[[FIRST]] : (i32) -> i32
    // CHECK-NEXT: %[[END:.*]] = llvm.mul %[[SETTLED]], %{{.*}} : i32
    // CHECK-NOT: inline_asm
    %sum = llvm.add %loaded, %turn : i32
    %end = llvm.mul %sum, %four : i32
    %needed = llvm.sub %loaded, %turn : i32
    %apart = llvm.add %lane, %turn : i32
    %mixed = llvm.mul %turn, %other : i32
    // Bytes that each lane has of its own are no more in common for being an intrinsic's.
    %bytes = llvm.call_intrinsic "llvm.amdgcn.perm"(%lane, %loaded, %scale) : (i32, i32, i32) -> i32
    %of_bytes = llvm.add %bytes, %turn : i32
    %wide = llvm.sext %turn : i32 to i64
    // The loop needs one of two, of which the other follows.
    %taken = llvm.and %loaded, %turn : i32
    %after_taken = llvm.mul %taken, %four : i32
    %before_taken = llvm.or %loaded, %turn : i32
    %taken_too = llvm.mul %before_taken, %four : i32
    %bound = llvm.add %loaded, %scale : i32
    %any = llvm.icmp "sgt" %needed, %zero : i32
    llvm.cond_br %any, ^way, ^behind
  ^way:
    %steps = llvm.sub %bound, %turn : i32
    llvm.br ^steady(%steps, %c : i32, vector<4xf32>)
  // CHECK: ^{{.*}}(%{{.*}}: i32, %{{.*}}: vector<4xf32>):
  // CHECK-NEXT: rocdl.mfma
  ^steady(%left: i32, %acc: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %acc, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %less = llvm.sub %left, %needed : i32
    %lesser = llvm.sub %less, %taken : i32
    %next = llvm.sub %lesser, %taken_too : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^steady(%next, %product : i32, vector<4xf32>), ^behind
  // CHECK: llvm.store %[[END]]
  ^behind:
    llvm.store %end, %p : i32, !llvm.ptr<1>
    llvm.store %needed, %p : i32, !llvm.ptr<1>
    llvm.store %after_taken, %p : i32, !llvm.ptr<1>
    llvm.store %taken_too, %p : i32, !llvm.ptr<1>
    llvm.store %bound, %p : i32, !llvm.ptr<1>
    llvm.store %apart, %p : i32, !llvm.ptr<1>
    llvm.store %mixed, %p : i32, !llvm.ptr<1>
    llvm.store %of_bytes, %p : i32, !llvm.ptr<1>
    llvm.store %wide, %p : i64, !llvm.ptr<1>
    // `other` comes from lanes, so that lanes do not have in common what follows from it.
    %following = llvm.add %turn, %four : i32
    %is = llvm.icmp "slt" %following, %count : i32
    llvm.cond_br %is, ^head(%following, %apart : i32, i32), ^end
  ^end:
    llvm.return
  }

  // CHECK-LABEL: llvm.func @ways
  // CHECK-NOT: inline_asm
  // CHECK: llvm.return
  llvm.func @ways(%count: i32, %scale: i32, %p: !llvm.ptr<1>,
      %m0: i64, %m1: i64, %m2: i64, %m3: i64, %m4: i64, %m5: i64, %m6: i64, %m7: i64, %m8: i64, %m9: i64, %m10: i64, %m11: i64, %m12: i64, %m13: i64, %m14: i64,
      %m15: i64, %m16: i64, %m17: i64, %m18: i64, %m19: i64, %m20: i64, %m21: i64, %m22: i64, %m23: i64, %m24: i64, %m25: i64, %m26: i64, %m27: i64, %m28: i64, %m29: i64, %m30: i64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %lane = rocdl.workitem.id.x : i32
    llvm.br ^head(%zero : i32)
  ^head(%turn: i32):
    %some = llvm.icmp "slt" %lane, %count : i32
    llvm.cond_br %some, ^inner, ^rest(%zero : i32)
  ^inner:
    %loaded = llvm.load %p : !llvm.ptr<1> -> i32
    llvm.br ^rest(%loaded : i32)
  ^rest(%joined: i32):
    %sum = llvm.add %joined, %turn : i32
    llvm.br ^way
  ^way:
    llvm.br ^steady(%count, %c : i32, vector<4xf32>)
  ^steady(%left: i32, %acc: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %acc, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.sub %left, %scale : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^steady(%next, %product : i32, vector<4xf32>), ^behind
  ^behind:
    llvm.store %sum, %p : i32, !llvm.ptr<1>
    %following = llvm.add %turn, %scale : i32
    %is = llvm.icmp "slt" %following, %count : i32
    llvm.cond_br %is, ^head(%following : i32), ^end
  ^end:
    llvm.return
  }

  // CHECK-LABEL: llvm.func @few
  // CHECK-NOT: inline_asm
  // CHECK: llvm.return
  llvm.func @few(%count: i32, %p: !llvm.ptr<1>) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    llvm.br ^head(%zero : i32)
  ^head(%turn: i32):
    %loaded = llvm.load %p : !llvm.ptr<1> -> i32
    %sum = llvm.add %loaded, %turn : i32
    llvm.br ^steady(%c : vector<4xf32>)
  ^steady(%acc: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %acc, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %go = llvm.icmp "sgt" %loaded, %turn : i32
    llvm.cond_br %go, ^steady(%product : vector<4xf32>), ^behind
  ^behind:
    %is = llvm.icmp "slt" %sum, %count : i32
    llvm.cond_br %is, ^head(%sum : i32), ^end
  ^end:
    llvm.return
  }
}
