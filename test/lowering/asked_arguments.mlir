// Of a kernel whose first arguments come in registers, the lines of memory that the others lie in are asked for in front of
// the first loads before a steady loop, and are there where it first waits; where the first branch hangs on one of them,
// they are asked for and there in front of that. A kernel all of whose arguments are in registers asks for nothing.

// RUN: ckmlir-opt %s --ck-reload-arguments | filecheck %s

module {
  // Bytes 56 to 79 come in no registers: they lie in two lines.
  // CHECK-LABEL: llvm.func @others
  // CHECK: ^bb1:
  // CHECK-NEXT: %[[SEGMENT:.*]] = llvm.call_intrinsic "llvm.amdgcn.kernarg.segment.ptr"
  // CHECK-NEXT: %[[BASE:.*]] = llvm.inline_asm has_side_effects "", "=s,0" %[[SEGMENT]]
  // CHECK-NEXT: %[[AT0:.*]] = llvm.getelementptr %[[BASE]][0]
  // CHECK-NEXT: %[[FIRST:.*]] = llvm.load %[[AT0]] invariant
  // CHECK-NEXT: %[[AT1:.*]] = llvm.getelementptr %[[BASE]][64]
  // CHECK-NEXT: %[[SECOND:.*]] = llvm.load %[[AT1]] invariant
  // CHECK: rocdl.raw.ptr.buffer.load
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0,s" %[[FIRST]], %[[SECOND]]
  // CHECK-NEXT: rocdl.s.waitcnt
  // CHECK-NOT: kernarg
  // CHECK: llvm.return
  llvm.func @others(%p: !llvm.ptr<1> {llvm.inreg}, %b: i64 {llvm.inreg}, %c: i64 {llvm.inreg}, %d: i64 {llvm.inreg}, %e: i64 {llvm.inreg}, %f: i64 {llvm.inreg}, %n: i32 {llvm.inreg}, %m: i32 {llvm.inreg}, %q: !llvm.ptr<1>, %r: i64, %s: i64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %short = llvm.mlir.constant(0 : i16) : i16
    %bytes = llvm.mlir.constant(64 : i64) : i64
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %start = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %any = llvm.icmp "sgt" %n, %zero : i32
    llvm.cond_br %any, ^before, ^end
  ^before:
    %buffer = rocdl.make.buffer.rsrc %p, %short, %bytes, %zero : <1> to <8>
    %loaded = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : i32
    rocdl.s.waitcnt 0
    rocdl.s.barrier
    llvm.br ^loop(%zero, %start : i32, vector<4xf32>)
  ^loop(%at: i32, %sum: vector<4xf32>):
    %total = rocdl.mfma.f32.16x16x16f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.add %at, %one : i32
    %again = llvm.icmp "slt" %next, %n : i32
    llvm.cond_br %again, ^loop(%next, %total : i32, vector<4xf32>), ^end
  ^end:
    llvm.return
  }

  // CHECK-LABEL: llvm.func @deciding
  // CHECK-NEXT: %[[SEGMENT:.*]] = llvm.call_intrinsic "llvm.amdgcn.kernarg.segment.ptr"
  // CHECK-NEXT: %[[BASE:.*]] = llvm.inline_asm has_side_effects "", "=s,0" %[[SEGMENT]]
  // CHECK-NEXT: %[[AT0:.*]] = llvm.getelementptr %[[BASE]][0]
  // CHECK-NEXT: %[[FIRST:.*]] = llvm.load %[[AT0]] invariant
  // CHECK-NEXT: %[[AT1:.*]] = llvm.getelementptr %[[BASE]][64]
  // CHECK-NEXT: %[[SECOND:.*]] = llvm.load %[[AT1]] invariant
  // CHECK: llvm.inline_asm has_side_effects "", "=s,0,s" %[[FIRST]], %[[SECOND]]
  // CHECK-NEXT: llvm.trunc
  // CHECK-NEXT: llvm.icmp
  // CHECK: llvm.cond_br
  // CHECK-NOT: kernarg
  // CHECK: llvm.return
  llvm.func @deciding(%p: !llvm.ptr<1> {llvm.inreg}, %b: i64 {llvm.inreg}, %c: i64 {llvm.inreg}, %d: i64 {llvm.inreg}, %e: i64 {llvm.inreg}, %f: i64 {llvm.inreg}, %n: i32 {llvm.inreg}, %m: i32 {llvm.inreg}, %q: !llvm.ptr<1>, %r: i64, %s: i64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %short = llvm.mlir.constant(0 : i16) : i16
    %bytes = llvm.mlir.constant(64 : i64) : i64
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %start = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    %some = llvm.trunc %s : i64 to i32
    %any = llvm.icmp "sgt" %some, %zero : i32
    llvm.cond_br %any, ^before, ^end
  ^before:
    %buffer = rocdl.make.buffer.rsrc %p, %short, %bytes, %zero : <1> to <8>
    %loaded = rocdl.raw.ptr.buffer.load %buffer, %zero, %zero, 0 : i32
    rocdl.s.waitcnt 0
    rocdl.s.barrier
    llvm.br ^loop(%zero, %start : i32, vector<4xf32>)
  ^loop(%at: i32, %sum: vector<4xf32>):
    %total = rocdl.mfma.f32.16x16x16f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.add %at, %one : i32
    %again = llvm.icmp "slt" %next, %n : i32
    llvm.cond_br %again, ^loop(%next, %total : i32, vector<4xf32>), ^end
  ^end:
    llvm.return
  }

  // CHECK-LABEL: llvm.func @none
  // CHECK-NOT: kernarg
  llvm.func @none(%n: i32 {llvm.inreg}) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %a = llvm.mlir.constant(dense<1.0> : vector<4xf16>) : vector<4xf16>
    %start = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
    rocdl.s.barrier
    llvm.br ^loop(%zero, %start : i32, vector<4xf32>)
  ^loop(%at: i32, %sum: vector<4xf32>):
    %total = rocdl.mfma.f32.16x16x16f16 %a, %a, %sum, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %next = llvm.add %at, %one : i32
    %again = llvm.icmp "slt" %next, %n : i32
    llvm.cond_br %again, ^loop(%next, %total : i32, vector<4xf32>), ^end
  ^end:
    llvm.return
  }
}
