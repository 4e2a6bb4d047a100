// Empty assembly stands in front of a branch to a steady loop that hands loads on to products, where that follows two
// loads: LLVM would move them behind it. One load has no order, and what does not branch has no place to move it to. Loops without matrix instructions are
// not steady.

// RUN: ckmlir-opt %s --ck-settle-loads | filecheck %s

module {
  // CHECK-LABEL: llvm.func @two
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK-NEXT: llvm.inline_asm has_side_effects "", "" : () -> ()
  // CHECK-NEXT: llvm.cond_br
  // CHECK-NOT: inline_asm
  llvm.func @two(%buffer: !llvm.ptr<8>, %some: i1) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %a = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    %b = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    llvm.cond_br %some, ^steady(%c, %b : vector<4xf32>, vector<4xf16>), ^behind
  ^steady(%acc: vector<4xf32>, %now: vector<4xf16>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %now, %acc, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    llvm.cond_br %some, ^steady(%product, %next : vector<4xf32>, vector<4xf16>), ^behind
  ^behind:
    llvm.return
  }

  // What turns do not hand on to products has its order elsewhere: it goes to LDS, or stays as it is in all turns.
  // CHECK-LABEL: llvm.func @kept
  // CHECK-NOT: inline_asm
  llvm.func @kept(%buffer: !llvm.ptr<8>, %lds: !llvm.ptr<3>, %some: i1) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %a = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    %b = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    llvm.cond_br %some, ^steady(%c, %b : vector<4xf32>, vector<4xf16>), ^behind
  ^steady(%acc: vector<4xf32>, %now: vector<4xf16>):
    llvm.store %now, %lds : vector<4xf16>, !llvm.ptr<3>
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %acc, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    llvm.cond_br %some, ^steady(%product, %next : vector<4xf32>, vector<4xf16>), ^behind
  ^behind:
    llvm.return
  }

  // CHECK-LABEL: llvm.func @one
  // CHECK-NOT: inline_asm
  llvm.func @one(%buffer: !llvm.ptr<8>, %some: i1) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %a = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    llvm.cond_br %some, ^steady(%c : vector<4xf32>), ^behind
  ^steady(%acc: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %a, %acc, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    llvm.cond_br %some, ^steady(%product : vector<4xf32>), ^behind
  ^behind:
    llvm.return
  }

  // CHECK-LABEL: llvm.func @surely
  // CHECK-NOT: inline_asm
  llvm.func @surely(%buffer: !llvm.ptr<8>, %some: i1) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %c = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %a = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    %b = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    llvm.br ^steady(%c : vector<4xf32>)
  ^steady(%acc: vector<4xf32>):
    %product = rocdl.mfma.f32.4x4x4f16 %a, %b, %acc, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    llvm.cond_br %some, ^steady(%product : vector<4xf32>), ^behind
  ^behind:
    llvm.return
  }

  // CHECK-LABEL: llvm.func @plain
  // CHECK-NOT: inline_asm
  llvm.func @plain(%buffer: !llvm.ptr<8>, %some: i1) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %a = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    %b = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : vector<4xf16>
    llvm.cond_br %some, ^loop(%a : vector<4xf16>), ^behind
  ^loop(%sum: vector<4xf16>):
    %next = llvm.fadd %sum, %b : vector<4xf16>
    llvm.cond_br %some, ^loop(%next : vector<4xf16>), ^behind
  ^behind:
    llvm.return
  }
}
