"""Kernels whose registers leave room for several waves of a SIMD, where nothing is spilled for that.

With at most four waves LLVM gives each up to 512 registers, and orders instructions for a wave that is alone: a kernel
that would do with 256 takes 270, and one wave runs on a SIMD where two would. A kernel can wish for more
(`ckmlir.lang.kernel`). What LLVM makes of the wish is kept if it spills no register; else the kernel is compiled
without it.
"""

from __future__ import annotations

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.build import integer, integer_of
from ckmlir.mlir import ir

WISH = "ck.waves_a_simd"
"""Set on functions: how many waves of a SIMD registers leave room for."""
PASSTHROUGH = "passthrough"
OPTION = "amdgpu-waves-per-eu"


def option_of(function: ir.Operation) -> tuple[ir.Attribute, ...]:
    """What LLVM is told of a function's wish, in the form in which MLIR hands it on; nothing where it has none."""
    if WISH not in function.attributes:
        return ()
    waves = integer_of(function, WISH)
    return (ir.ArrayAttr.get([ir.StringAttr.get(OPTION), ir.StringAttr.get(f"{waves},{waves}")]),)


def spilled(code_object: CodeObject) -> bool:
    """Whether any kernel keeps registers in memory or, of scalar ones, in lanes."""
    found = [one.metadata for one in code_object.kernels.values()]
    return any(one.vgpr_spill_count or one.sgpr_spill_count or one.private_segment_size for one in found)


def kernels(module: ir.Module) -> list[ir.Operation]:
    """Those of a lowered module."""
    inside = [top for top in module.body.operations if top.operation.name == "gpu.module"]
    functions = [one.operation for top in inside for one in top.operation.regions[0].blocks[0].operations]
    return [one for one in functions if PASSTHROUGH in one.attributes]


def wished(module: ir.Module) -> list[ir.Operation]:
    """The kernels of a lowered module that wish for several waves."""
    return [one for one in kernels(module) if WISH in one.attributes]


def wish(kernel: ir.Operation, waves: int) -> None:
    """Have a kernel of a lowered module wish for several waves."""
    kernel.attributes[WISH] = integer(waves, 32)
    given = ir.ArrayAttr(kernel.attributes[PASSTHROUGH])
    kernel.attributes[PASSTHROUGH] = ir.ArrayAttr.get([*given, *option_of(kernel)])


def withdraw(module: ir.Module) -> None:
    """Take the wishes from the kernels of a lowered module."""
    for function in wished(module):
        left = [one for one in ir.ArrayAttr(function.attributes[PASSTHROUGH]) if OPTION not in str(one)]
        function.attributes[PASSTHROUGH] = ir.ArrayAttr.get(left)
        del function.attributes[WISH]
