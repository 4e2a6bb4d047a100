// A steady loop of more than five arrays reads few arguments again, before it and behind it, and computes the wave's
// number anew behind it. Behind the kernel's first block that is a turn, too. Several buffers of one array count once.

// RUN: ckmlir-opt %s --ck-reload-arguments | filecheck %s

module {
  // CHECK-LABEL: llvm.func @six
  // CHECK: llvm.cond_br %{{.*}}, ^[[WAY:.*]], ^[[BEHIND:.*]]{{$}}
  // CHECK: ^[[WAY]]:{{.*}}
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: %[[COUNT:.*]] = llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  // CHECK: llvm.br ^{{.*}}(%[[COUNT]], %{{.*}} : i32, vector<4xf32>)
  // CHECK: rocdl.mfma
  // CHECK: ^[[BEHIND]]:{{.*}}
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0"
  // CHECK: %[[SIZE:.*]] = llvm.load %{{.*}} invariant {alignment = 8 : i64} : !llvm.ptr<4> -> i64
  // CHECK: %[[THREAD:.*]] = llvm.inline_asm has_side_effects "", "=v,0"
  // CHECK: %[[NUMBER:.*]] = llvm.lshr %[[THREAD]]
  // CHECK: %[[WAVE:.*]] = rocdl.readfirstlane %[[NUMBER]]
  // CHECK: llvm.store %[[SIZE]]
  // CHECK: llvm.store %[[WAVE]]
  llvm.func @six(%count: i32, %size: i64, %p0: !llvm.ptr<1>, %p1: !llvm.ptr<1>, %p2: !llvm.ptr<1>, %p3: !llvm.ptr<1>, %p4: !llvm.ptr<1>, %p5: !llvm.ptr<1>) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %none = llvm.mlir.constant(0 : i16) : i16
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %shift = llvm.mlir.constant(6 : i32) : i32
    %thread = rocdl.workitem.id.x : i32
    %number = llvm.lshr %thread, %shift : i32
    %wave = rocdl.readfirstlane %number : i32
    %is = llvm.icmp "slt" %zero, %count : i32
    llvm.cond_br %is, ^way, ^behind
  ^way:
    llvm.br ^steady(%count, %c : i32, vector<4xf32>)
  ^steady(%left: i32, %sum: vector<4xf32>):
    %b0 = rocdl.make.buffer.rsrc %p0, %none, %size, %zero : <1> to <8>
    %v0 = rocdl.raw.ptr.buffer.load %b0, %zero, %zero, 0 : i32
    %q1 = llvm.getelementptr %p1[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
    %b1 = rocdl.make.buffer.rsrc %q1, %none, %size, %zero : <1> to <8>
    %v1 = rocdl.raw.ptr.buffer.load %b1, %zero, %zero, 0 : i32
    %b2 = rocdl.make.buffer.rsrc %p2, %none, %size, %zero : <1> to <8>
    %v2 = rocdl.raw.ptr.buffer.load %b2, %zero, %zero, 0 : i32
    %b3 = rocdl.make.buffer.rsrc %p3, %none, %size, %zero : <1> to <8>
    %v3 = rocdl.raw.ptr.buffer.load %b3, %zero, %zero, 0 : i32
    %b4 = rocdl.make.buffer.rsrc %p4, %none, %size, %zero : <1> to <8>
    %v4 = rocdl.raw.ptr.buffer.load %b4, %zero, %zero, 0 : i32
    %b5 = rocdl.make.buffer.rsrc %p5, %none, %size, %zero : <1> to <8>
    %v5 = rocdl.raw.ptr.buffer.load %b5, %zero, %zero, 0 : i32
    %second = llvm.getelementptr %p0[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
    %b = rocdl.make.buffer.rsrc %second, %none, %size, %zero : <1> to <8>
    %v = rocdl.raw.ptr.buffer.load %b, %zero, %zero, 0 : i32
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.sub %left, %v : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^steady(%next, %product : i32, vector<4xf32>), ^behind
  ^behind:
    llvm.store %size, %p0 : i64, !llvm.ptr<1>
    llvm.store %wave, %p0 : i32, !llvm.ptr<1>
    llvm.return
  }

  // CHECK-LABEL: llvm.func @five
  // CHECK-NOT: inline_asm
  // CHECK: llvm.return
  llvm.func @five(%count: i32, %size: i64, %p0: !llvm.ptr<1>, %p1: !llvm.ptr<1>, %p2: !llvm.ptr<1>, %p3: !llvm.ptr<1>, %p4: !llvm.ptr<1>) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %none = llvm.mlir.constant(0 : i16) : i16
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %is = llvm.icmp "slt" %zero, %count : i32
    llvm.cond_br %is, ^way, ^behind
  ^way:
    llvm.br ^steady(%count, %c : i32, vector<4xf32>)
  ^steady(%left: i32, %sum: vector<4xf32>):
    %b0 = rocdl.make.buffer.rsrc %p0, %none, %size, %zero : <1> to <8>
    %v0 = rocdl.raw.ptr.buffer.load %b0, %zero, %zero, 0 : i32
    %q1 = llvm.getelementptr %p1[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
    %b1 = rocdl.make.buffer.rsrc %q1, %none, %size, %zero : <1> to <8>
    %v1 = rocdl.raw.ptr.buffer.load %b1, %zero, %zero, 0 : i32
    %b2 = rocdl.make.buffer.rsrc %p2, %none, %size, %zero : <1> to <8>
    %v2 = rocdl.raw.ptr.buffer.load %b2, %zero, %zero, 0 : i32
    %b3 = rocdl.make.buffer.rsrc %p3, %none, %size, %zero : <1> to <8>
    %v3 = rocdl.raw.ptr.buffer.load %b3, %zero, %zero, 0 : i32
    %b4 = rocdl.make.buffer.rsrc %p4, %none, %size, %zero : <1> to <8>
    %v4 = rocdl.raw.ptr.buffer.load %b4, %zero, %zero, 0 : i32
    %second = llvm.getelementptr %p0[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
    %b = rocdl.make.buffer.rsrc %second, %none, %size, %zero : <1> to <8>
    %v = rocdl.raw.ptr.buffer.load %b, %zero, %zero, 0 : i32
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.sub %left, %v : i32
    %go = llvm.icmp "sgt" %next, %zero : i32
    llvm.cond_br %go, ^steady(%next, %product : i32, vector<4xf32>), ^behind
  ^behind:
    llvm.store %size, %p0 : i64, !llvm.ptr<1>
    llvm.return
  }
}
