"""Code objects for tests, made from LLVM IR by the AMDGPU back end inside llvmlite: no linker and no other tool is
needed."""

from __future__ import annotations

import struct
from functools import cache

import llvmlite.binding as llvm

from ckmlir.codeobject import CodeObject

_HEADER = """target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare void @llvm.amdgcn.s.barrier()
"""

GLOBAL_ID = """  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %wg, 64
  %id = add i32 %base, %tid
"""
"""Defines %id for workgroups of 64."""


@cache
def compile_kernel(text: str, target: str = "gfx942", optimisation: int = 2) -> CodeObject:
    """A relocatable code object of an LLVM module's text (without triple and common declarations)."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(
        cpu=target, opt=optimisation, reloc="pic"
    )
    module = llvm.parse_assembly(_HEADER + text)
    module.verify()
    return CodeObject.parse(bytes(machine.emit_object(module)))


def replace_words(code_object: CodeObject, old: tuple[int, ...], new: tuple[int, ...]) -> CodeObject:
    """The code object with one sequence of dwords replaced by another: instructions that no compiler would put
    there."""
    before, after = (struct.pack(f"<{len(words)}I", *words) for words in (old, new))
    assert code_object.data.count(before) == 1 and len(before) == len(after)
    return CodeObject.parse(code_object.data.replace(before, after))


def elementwise(body: str, inputs: str, output: str, declarations: str = "") -> str:
    """A kernel `k(n inputs…, output)` on arrays: `body` computes %r from %x, %y, … at index %id."""
    types = inputs.split()
    names = "xyz"[: len(types)]
    parameters = ", ".join(f"ptr addrspace(1) %{name}p" for name in names)
    loads = "".join(
        f"  %{name}a = getelementptr {type}, ptr addrspace(1) %{name}p, i32 %id\n"
        f"  %{name} = load {type}, ptr addrspace(1) %{name}a\n"
        for name, type in zip(names, types)
    )
    return f"""{declarations}
define amdgpu_kernel void @k({parameters}, ptr addrspace(1) %out) #0 {{
{GLOBAL_ID}{loads}{body}
  %o = getelementptr {output}, ptr addrspace(1) %out, i32 %id
  store {output} %r, ptr addrspace(1) %o
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,1024" "denormal-fp-math-f32"="ieee,ieee" }}
"""
