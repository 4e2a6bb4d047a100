// Turns of a loop around steady loops read kernel arguments again where they begin and behind each steady loop, and
// compute anew what follows from them alone; what is behind the last turn reads many once more. So does what is around
// a steady loop that is in no other one. They do where there are several arguments, and of few where the steady loop
// copies to LDS.

// RUN: ckmlir-opt %s --ck-reload-arguments | filecheck %s

module {
  // CHECK-LABEL: llvm.func @turns
  // CHECK-SAME: (%[[COUNT:[a-z0-9]*]]: i32, %[[SCALE:[a-z0-9]*]]: i32, %[[LONG:[a-z0-9]*]]: i64
  llvm.func @turns(%count: i32, %scale: i32, %long: i64, %p: !llvm.ptr<1>,
      %m0: i64, %m1: i64, %m2: i64, %m3: i64, %m4: i64, %m5: i64, %m6: i64, %m7: i64, %m8: i64, %m9: i64, %m10: i64, %m11: i64, %m12: i64, %m13: i64, %m14: i64,
      %m15: i64, %m16: i64, %m17: i64, %m18: i64, %m19: i64, %m20: i64, %m21: i64, %m22: i64, %m23: i64, %m24: i64, %m25: i64, %m26: i64, %m27: i64, %m28: i64, %m29: i64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %four = llvm.mlir.constant(4 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %blocks = llvm.sdiv %scale, %four : i32
    %rest = llvm.sdiv %four, %scale : i32
    %thread = rocdl.workitem.id.x : i32
    %number = llvm.lshr %thread, %four : i32
    %wave = rocdl.readfirstlane %number : i32
    llvm.br ^head(%zero : i32)
  // Each line of memory with arguments is asked for where the kernel begins, so that the first turn does not wait.
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0,s,s,s,s" %{{.*}} : (i32, i32, i32, i32, i32) -> i32
  // CHECK-NEXT: llvm.br
  // What decides whether there is a turn is as before.
  // CHECK: ^[[HEAD:.*]](%[[TURN:.*]]: i32):
  // CHECK-NEXT: llvm.icmp "slt" %[[TURN]], %[[COUNT]]
  ^head(%turn: i32):
    %is = llvm.icmp "slt" %turn, %count : i32
    llvm.cond_br %is, ^begin, ^end
  // CHECK: %[[SEGMENT:.*]] = llvm.call_intrinsic "llvm.amdgcn.kernarg.segment.ptr"() : () -> !llvm.ptr<4>
  // CHECK: %[[HERE:.*]] = llvm.inline_asm has_side_effects "", "=s,0" %[[SEGMENT]] : (!llvm.ptr<4>) -> !llvm.ptr<4>
  // CHECK: %[[PLACE:.*]] = llvm.getelementptr %[[HERE]][4] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  // CHECK: %[[AGAIN:.*]] = llvm.load %[[PLACE]] invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  // CHECK: %[[BLOCKS:.*]] = llvm.sdiv %[[AGAIN]], %{{.*}} : i32
  // CHECK: llvm.br ^[[STEADY:.*]](%[[BLOCKS]], %{{.*}} : i32, vector<4xf32>)
  ^begin:
    llvm.br ^steady(%blocks, %c : i32, vector<4xf32>)
  // CHECK: ^[[STEADY]]
  // CHECK-NOT: inline_asm
  // CHECK: llvm.sub %{{.*}}, %[[AGAIN]] : i32
  ^steady(%left: i32, %sum: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.sub %left, %scale : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^steady(%next, %product : i32, vector<4xf32>), ^behind
  // Behind the loop from memory once more; what a division by an argument found stays as it is.
  // CHECK: %[[BEHIND:.*]] = llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: llvm.getelementptr %[[BEHIND]][8] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  // CHECK: %[[WIDE:.*]] = llvm.load %{{.*}} invariant {alignment = 8 : i64} : !llvm.ptr<4> -> i64
  // CHECK: llvm.store %[[WIDE]], %[[OUT:.*]] : i64, !llvm.ptr<1>
  // CHECK: llvm.store %{{.*}}, %[[OUT]] : i32, !llvm.ptr<1>
  ^behind:
    llvm.store %long, %p : i64, !llvm.ptr<1>
    llvm.store %rest, %p : i32, !llvm.ptr<1>
    %following = llvm.add %turn, %one : i32
    llvm.br ^head(%following : i32)
  // Behind all turns too, where the number of the wave is computed anew from the thread's.
  // CHECK: %[[THREAD:.*]] = llvm.inline_asm has_side_effects "", "=v,0" %{{.*}} : (i32) -> i32
  // CHECK: %[[NUMBER:.*]] = llvm.lshr %[[THREAD]], %{{.*}} : i32
  // CHECK: %[[WAVE:.*]] = rocdl.readfirstlane %[[NUMBER]] : i32
  // CHECK: %[[LAST:.*]] = llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: llvm.getelementptr %[[LAST]][4] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  // CHECK: %[[THERE:.*]] = llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  // CHECK: llvm.store %[[WAVE]], %{{.*}} : i32, !llvm.ptr<1>
  // CHECK: llvm.store %[[THERE]], %{{.*}} : i32, !llvm.ptr<1>
  ^end:
    llvm.store %wave, %p : i32, !llvm.ptr<1>
    llvm.store %scale, %p : i32, !llvm.ptr<1>
    llvm.return
  }

  // A turn with two steady loops reads between them, too.
  // CHECK-LABEL: llvm.func @two
  // CHECK: rocdl.mfma
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: %[[MIDDLE:.*]] = llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  // CHECK: llvm.br ^{{.*}}(%[[MIDDLE]]
  // CHECK: rocdl.mfma
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: %[[LAST:.*]] = llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  // CHECK: llvm.store %[[LAST]]
  llvm.func @two(%count: i32, %scale: i32, %long: i64, %p: !llvm.ptr<1>,
      %m0: i64, %m1: i64, %m2: i64, %m3: i64, %m4: i64, %m5: i64, %m6: i64, %m7: i64, %m8: i64, %m9: i64, %m10: i64, %m11: i64, %m12: i64, %m13: i64, %m14: i64,
      %m15: i64, %m16: i64, %m17: i64, %m18: i64, %m19: i64, %m20: i64, %m21: i64, %m22: i64, %m23: i64, %m24: i64, %m25: i64, %m26: i64, %m27: i64, %m28: i64, %m29: i64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    llvm.br ^head(%zero : i32)
  ^head(%turn: i32):
    llvm.br ^first(%turn, %c : i32, vector<4xf32>)
  ^first(%left: i32, %sum: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.sub %left, %one : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^first(%next, %product : i32, vector<4xf32>), ^between
  ^between:
    llvm.br ^second(%scale, %product : i32, vector<4xf32>)
  ^second(%left1: i32, %sum1: vector<4xf32>):
    %product1 = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum1, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next1 = llvm.sub %left1, %one : i32
    %go1 = llvm.icmp "sgt" %next1, %zero : i32
    llvm.cond_br %go1, ^second(%next1, %product1 : i32, vector<4xf32>), ^behind
  ^behind:
    llvm.store %scale, %p : i32, !llvm.ptr<1>
    %following = llvm.add %turn, %one : i32
    %is = llvm.icmp "slt" %following, %count : i32
    llvm.cond_br %is, ^head(%following : i32), ^end
  ^end:
    llvm.return
  }

  // Behind the last branch before the loop, and where all ways behind it meet.
  // CHECK-LABEL: llvm.func @alone
  // CHECK: llvm.cond_br
  // CHECK: llvm.cond_br %{{.*}}, ^[[WAY:.*]], ^[[BEHIND:.*]]{{$}}
  // CHECK: ^[[WAY]]:{{.*}}
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: %[[AGAIN:.*]] = llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  // CHECK: llvm.add %[[AGAIN]]
  // CHECK: ^{{.*}}(%{{.*}}: vector<4xf32>
  // CHECK-NOT: inline_asm
  // CHECK: rocdl.mfma
  // The loop between two carries inside a steady loop does not count as a turn: nothing is read in it.
  // CHECK-NOT: inline_asm
  // CHECK: rocdl.mfma
  // CHECK: ^[[BEHIND]]:{{.*}}
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: llvm.load %{{.*}} invariant {alignment = 8 : i64} : !llvm.ptr<4> -> i64
  llvm.func @alone(%count: i32, %scale: i32, %long: i64, %p: !llvm.ptr<1>,
      %m0: i64, %m1: i64, %m2: i64, %m3: i64, %m4: i64, %m5: i64, %m6: i64, %m7: i64, %m8: i64, %m9: i64, %m10: i64, %m11: i64, %m12: i64, %m13: i64, %m14: i64,
      %m15: i64, %m16: i64, %m17: i64, %m18: i64, %m19: i64, %m20: i64, %m21: i64, %m22: i64, %m23: i64, %m24: i64, %m25: i64, %m26: i64, %m27: i64, %m28: i64, %m29: i64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %exists = llvm.icmp "slt" %zero, %count : i32
    llvm.cond_br %exists, ^work, ^end
  ^work:
    %is = llvm.icmp "slt" %scale, %count : i32
    llvm.cond_br %is, ^way, ^behind
  ^way:
    %first = llvm.add %scale, %count : i32
    llvm.br ^steady(%first, %c : i32, vector<4xf32>)
  ^steady(%left: i32, %sum: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.sub %left, %scale : i32
    %carries = llvm.icmp "sgt" %next, %first : i32
    llvm.cond_br %carries, ^on(%next, %product : i32, vector<4xf32>), ^both(%next, %product : i32, vector<4xf32>)
  ^on(%left1: i32, %sum1: vector<4xf32>):
    %product1 = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum1, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next1 = llvm.sub %left1, %scale : i32
    %same = llvm.icmp "sgt" %next1, %first : i32
    llvm.cond_br %same, ^on(%next1, %product1 : i32, vector<4xf32>), ^both(%next1, %product1 : i32, vector<4xf32>)
  ^both(%left2: i32, %sum2: vector<4xf32>):
    %go = llvm.icmp "sgt" %left2, %zero : i32
    llvm.cond_br %go, ^steady(%left2, %sum2 : i32, vector<4xf32>), ^behind
  ^behind:
    llvm.store %long, %p : i64, !llvm.ptr<1>
    llvm.br ^end
  ^end:
    llvm.return
  }

  // Few arguments have registers of their own.
  // CHECK-LABEL: llvm.func @few
  // CHECK-NOT: inline_asm
  // CHECK: llvm.return
  llvm.func @few(%count: i32, %scale: i32) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    llvm.br ^begin(%zero : i32)
  ^begin(%turn: i32):
    llvm.br ^steady(%scale, %c : i32, vector<4xf32>)
  ^steady(%left: i32, %sum: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.sub %left, %scale : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^steady(%next, %product : i32, vector<4xf32>), ^behind
  ^behind:
    %following = llvm.add %turn, %scale : i32
    %is = llvm.icmp "slt" %following, %count : i32
    llvm.cond_br %is, ^begin(%following : i32), ^end
  ^end:
    llvm.return
  }

  // But where the steady loop copies to LDS.
  // CHECK-LABEL: llvm.func @copies
  // CHECK: llvm.br ^[[BEGIN:.*]](%{{.*}} : i32)
  // CHECK: ^[[BEGIN]]
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: rocdl.mfma
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  llvm.func @copies(%count: i32, %scale: i32, %p: !llvm.ptr<8>, %lds: !llvm.ptr<3>) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %four = llvm.mlir.constant(4 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    llvm.br ^begin(%zero : i32)
  ^begin(%turn: i32):
    llvm.br ^steady(%scale, %c : i32, vector<4xf32>)
  ^steady(%left: i32, %sum: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    rocdl.raw.ptr.buffer.load.async.lds %p, %lds, %four, %zero, %zero, %zero, 0
    %next = llvm.sub %left, %scale : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^steady(%next, %product : i32, vector<4xf32>), ^behind
  ^behind:
    %following = llvm.add %turn, %scale : i32
    %is = llvm.icmp "slt" %following, %count : i32
    llvm.cond_br %is, ^begin(%following : i32), ^end
  ^end:
    llvm.return
  }
}
