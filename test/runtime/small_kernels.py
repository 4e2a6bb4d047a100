"""Code objects for tests of devices: a kernel with every kind of argument, and one that goes out of bounds."""

from __future__ import annotations

import functools

from ckmlir.dialect.context import shared_context
from ckmlir.lowering.codeobject import emit_code_object
from ckmlir.mlir import ir

SCALE = """
module {
  gpu.module @kernels {
    llvm.func @scale(%x: !llvm.ptr<1>, %factor: f32, %big: i64) attributes {gpu.kernel, rocdl.kernel} {
      %lane = rocdl.workitem.id.x : i32
      %group = rocdl.workgroup.id.x : i32
      %size = llvm.mlir.constant(64 : i32) : i32
      %base = llvm.mul %group, %size : i32
      %index = llvm.add %base, %lane : i32
      %place = llvm.getelementptr %x[%index] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %old = llvm.load %place : !llvm.ptr<1> -> f32
      %scaled = llvm.fmul %old, %factor : f32
      %shift = llvm.uitofp %big : i64 to f32
      %new = llvm.fadd %scaled, %shift : f32
      llvm.store %new, %place : f32, !llvm.ptr<1>
      llvm.return
    }
  }
}
"""
"""x[i] = factor * x[i] + big, for 64 elements a workgroup; the arguments have padding between them."""


@functools.cache
def scale_code(chip: str) -> bytes:
    """The code object with the kernel `scale`."""
    with shared_context() as context:
        return emit_code_object(ir.Module.parse(SCALE, context), chip).hsaco


@functools.cache
def scale_last_code(chip: str) -> bytes:
    """The same kernel with its memory behind the scalars: `scale` takes factor, big, x."""
    text = SCALE.replace("%x: !llvm.ptr<1>, %factor: f32, %big: i64", "%factor: f32, %big: i64, %x: !llvm.ptr<1>")
    with shared_context() as context:
        return emit_code_object(ir.Module.parse(text, context), chip).hsaco
