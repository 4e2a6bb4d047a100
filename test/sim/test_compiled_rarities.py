"""Rare instructions as LLVM emits them, in whole kernels: arrays in registers, sparse products, hardware registers,
typed buffers."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_kernels import GLOBAL_ID, compile_kernel

from ckmlir.codeobject import CodeObject
from ckmlir.sim import Simulator
from ckmlir.sim.decode import disassemble

TARGETS = ("gfx90a", "gfx942", "gfx950")


def mnemonics(code_object: CodeObject) -> set[str]:
    return {instruction.mnemonic for instruction in disassemble(code_object, "k")}


def array_kernel() -> str:
    """out[i] = a[index] after a[index] = 7, for an array of 16 that only registers can hold."""
    loads = "".join(
        f"  %p{k} = getelementptr i32, ptr addrspace(1) %in, i32 {k}\n  %s{k} = load i32, ptr addrspace(1) %p{k}\n"
        f"  %e{k} = add i32 %s{k}, %id\n"
        f"  %v{k} = insertelement <16 x i32> {f'%v{k - 1}' if k else 'poison'}, i32 %e{k}, i32 {k}\n"
        for k in range(16)
    )
    return f"""
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out, i32 %read, i32 %write) #0 {{
{GLOBAL_ID}{loads}
  %w = insertelement <16 x i32> %v15, i32 777, i32 %write
  %r = extractelement <16 x i32> %w, i32 %read
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %id
  store i32 %r, ptr addrspace(1) %o
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="64,64" }}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_in_registers_are_indexed(target: str) -> None:
    code_object = compile_kernel(array_kernel(), target)
    assert "s_set_gpr_idx_on" in mnemonics(code_object)
    simulator = Simulator(target)
    source = simulator.upload(np.arange(100, 116, dtype=np.int32))
    out = simulator.upload(np.zeros(64, np.int32))
    for read, write in ((0, 5), (9, 9), (15, 0), (7, 8)):
        simulator.launch(code_object, "k", (1, 1, 1), (64, 1, 1), [source, out, read, write])
        expected = np.full(64, 777) if read == write else 100 + read + np.arange(64)
        np.testing.assert_array_equal(out.read(np.int32), expected)


def test_hardware_registers_say_what_the_launch_set() -> None:
    text = f"""
declare i32 @llvm.amdgcn.s.getreg(i32 immarg)
define amdgpu_kernel void @k(ptr addrspace(1) %out) #0 {{
{GLOBAL_ID}
  %bases = call i32 @llvm.amdgcn.s.getreg(i32 {15 | 31 << 11})
  %mode = call i32 @llvm.amdgcn.s.getreg(i32 {1 | 9 << 11})
  %valid = call i32 @llvm.amdgcn.s.getreg(i32 {2 | 16 << 6})
  %simd = call i32 @llvm.amdgcn.s.getreg(i32 {4 | 4 << 6 | 1 << 11})
  %a = insertelement <4 x i32> poison, i32 %bases, i32 0
  %b = insertelement <4 x i32> %a, i32 %mode, i32 1
  %c = insertelement <4 x i32> %b, i32 %valid, i32 2
  %d = insertelement <4 x i32> %c, i32 %simd, i32 3
  %o = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %id
  store <4 x i32> %d, ptr addrspace(1) %o
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="128,128" "denormal-fp-math-f32"="ieee,ieee" }}
"""
    simulator = Simulator()
    out = simulator.upload(np.zeros((128, 4), np.int32))
    simulator.launch(compile_kernel(text), "k", (1, 1, 1), (128, 1, 1), [out])
    got = out.read(np.int32).reshape(128, 4)
    assert (got[:, :3] == [1 << 16 | 2, 0x3F0, 1]).all()
    np.testing.assert_array_equal(got[:, 3], np.arange(128) // 64)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_sparse_product_of_ones(target: str) -> None:
    """Each row of A keeps K/2 ones, so every element of D is K/2 more than it was."""
    text = f"""
declare <4 x float> @llvm.amdgcn.smfmac.f32.16x16x32.f16(
  <4 x half>, <8 x half>, <4 x float>, i32, i32 immarg, i32 immarg)
define amdgpu_kernel void @k(ptr addrspace(1) %out) #0 {{
{GLOBAL_ID}
  %d = call <4 x float> @llvm.amdgcn.smfmac.f32.16x16x32.f16(<4 x half> splat (half 1.0), <8 x half> splat (half 1.0),
    <4 x float> splat (float 2.5), i32 {0b1001_0100_0000_0000}, i32 0, i32 1)
  %o = getelementptr <4 x float>, ptr addrspace(1) %out, i32 %id
  store <4 x float> %d, ptr addrspace(1) %o
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="64,64" }}
"""
    simulator = Simulator(target)
    out = simulator.upload(np.zeros(256, np.float32))
    simulator.launch(compile_kernel(text, target), "k", (1, 1, 1), (64, 1, 1), [out])
    np.testing.assert_array_equal(out.read(np.float32), np.full(256, 18.5))


def test_a_typed_buffer_load() -> None:
    """llvm.amdgcn.struct.ptr.buffer.load.format takes the format from the resource."""
    word3 = 10 << 15 | 0 << 12 | 0o7654  # 8_8_8_8 UNORM
    text = f"""
declare <4 x float> @llvm.amdgcn.struct.ptr.buffer.load.format.v4f32(ptr addrspace(8), i32, i32, i32, i32 immarg)
declare ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {{
{GLOBAL_ID}
  %b = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %in, i16 4, i64 256, i32 {word3})
  %d = call <4 x float> @llvm.amdgcn.struct.ptr.buffer.load.format.v4f32(
    ptr addrspace(8) %b, i32 %id, i32 0, i32 0, i32 0)
  %o = getelementptr <4 x float>, ptr addrspace(1) %out, i32 %id
  store <4 x float> %d, ptr addrspace(1) %o
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="64,64" }}
"""
    simulator = Simulator()
    data = np.random.default_rng(0).integers(0, 256, 256).astype(np.uint8)
    source, out = simulator.upload(data), simulator.upload(np.zeros(256, np.float32))
    simulator.launch(compile_kernel(text), "k", (1, 1, 1), (64, 1, 1), [source, out])
    np.testing.assert_array_equal(out.read(np.float32), (data / np.float32(255)).astype(np.float32))
