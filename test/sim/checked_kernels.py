"""Small kernels as LLVM IR, and what checkers find in a launch of one."""

from __future__ import annotations

from typing import Any

from llvm_kernels import GLOBAL_ID, compile_kernel

from ckmlir.sim import CheckFailure, DeviceMemory, Finding, Simulator, parse_checks

DECLARATIONS = """
@lds = internal addrspace(3) global [1024 x i32] undef, align 16
declare void @llvm.amdgcn.raw.buffer.store.i32(i32, <4 x i32>, i32, i32, i32)
declare i32 @llvm.amdgcn.raw.buffer.load.i32(<4 x i32>, i32, i32, i32)
"""


def kernel(body: str, parameters: str = "ptr addrspace(1) %p", threads: int = 256) -> str:
    return f"""{DECLARATIONS}
define amdgpu_kernel void @k({parameters}) #0 {{
{GLOBAL_ID}{body}
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,{threads}" "uniform-work-group-size"="true" }}
"""


def run(
    text: str,
    checks: str,
    arguments: list[DeviceMemory],
    simulator: Simulator,
    block: int = 64,
    grid: int = 1,
    target: str = "gfx942",
) -> list[Finding]:
    """The findings of a launch."""
    assert simulator.checks == parse_checks(checks)
    try:
        simulator.launch(compile_kernel(text, target), "k", (grid, 1, 1), (block, 1, 1), arguments)
    except CheckFailure as failure:
        return list(failure.findings)
    return []


def simulator(checks: str, **options: Any) -> Simulator:
    return Simulator(checks=parse_checks(checks), **options)


STORE_ID = """  %a = getelementptr i32, ptr addrspace(1) %p, i32 %id
  store i32 %id, ptr addrspace(1) %a
  ret void"""
STORE_V = """  %o = getelementptr i32, ptr addrspace(1) %p, i32 %id
  store i32 %v, ptr addrspace(1) %o
  ret void"""
