"""Kernels of given machine code: `assembly.py` makes the code, and it takes the place of a compiled kernel's."""

from __future__ import annotations

from functools import cache

from assembly import assemble
from llvm_kernels import compile_kernel

from ckmlir.codeobject import CodeObject

S_ENDPGM = 0xBF810000


def _room() -> str:
    """A kernel with room for code: one argument, 128 work-items at most, no registers but those of the launch."""
    stores = "".join(f"  store volatile i32 {1000 + k}, ptr addrspace(1) %p\n" for k in range(80))
    unused = " ".join(f'"amdgpu-no-{name}"' for name in ("dispatch-ptr", "queue-ptr", "dispatch-id", "implicitarg-ptr"))
    return f"""
define amdgpu_kernel void @k(ptr addrspace(1) %p) #0 {{
{stores}  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="128,128" "uniform-work-group-size"="true" {unused} }}
"""


@cache
def assembled(text: str, target: str) -> CodeObject:
    """A kernel `k` with these lines of assembly as its code; s_endpgm is added. Its argument, a pointer, is where
    s[0:1] points (gfx942 and later)."""
    compiled = compile_kernel(_room(), target)
    kernel = compiled.kernel()
    old = compiled.code(kernel)
    new = assemble(text, target)
    assert len(new) < len(old) and compiled.data.count(old) == 1
    filling = S_ENDPGM.to_bytes(4, "little") * ((len(old) - len(new)) // 4)
    return CodeObject.parse(compiled.data.replace(old, new + filling))
