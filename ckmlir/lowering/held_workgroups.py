"""Kernels of which a compute unit is given several workgroups at a time, and whose registers leave room for them.

A grid of workgroups that stay, or that wait for each other, is chosen before the kernel is compiled, by what its tiles
take (`ckmlir.ops.resources.Resources.workgroups_a_unit`). With at most four waves LLVM gives each up to 512 registers,
and a kernel that would do with 256 may take 260. One workgroup would run where two were launched: the second would
have its turns behind the first, and one that is waited for would never run. So the kernel says how many it is launched
for (`ckmlir.lang.kernel`), LDS is dealt out for as many (`ck-allocate-lds`), and a kernel that takes more registers is
compiled again with the wish for so many waves (`resident_waves`): where workgroups wait for each other even if
registers are spilled, else if none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.build import text_of
from ckmlir.lowering.codeobject import CodeGenerationError, CompiledObject
from ckmlir.lowering.occupancy import kernel_occupancy
from ckmlir.lowering.resident_waves import kernels, spilled, wish, withdraw
from ckmlir.mlir import ir
from ckmlir.passes.walk import workgroups_a_unit
from ckmlir.targets import get_target

WAITS = "ck.waits"
"""Set on functions whose workgroups wait for each other."""


def emitted_as_held(module: ir.Module, emit: Callable[[], CompiledObject], found: CompiledObject) -> CompiledObject:
    """`found`, which `emit` made of a lowered module, or what it makes of that with as many workgroups of each kernel
    in a compute unit as it is launched for. The module is left as it makes that of it.

    Raises CodeGenerationError where workgroups that wait for each other do not fit for all that.
    """
    short = _short(kernels(module), found)
    if not short:
        return found
    for kernel in short:
        wish(kernel, _waves(kernel, found.code_object))
    again = emit()
    waiting = [kernel for kernel in short if WAITS in kernel.attributes]
    if not waiting and spilled(again.code_object):
        withdraw(module)
        return found
    for kernel in _short(waiting, again):
        raise CodeGenerationError(
            f"{text_of(kernel, 'sym_name')}: its workgroups wait for each other, and LLVM leaves room for fewer than "
            f"the {workgroups_a_unit(kernel)} that a compute unit is given; use a smaller block"
        )
    return again


def _short(functions: Iterable[ir.Operation], compiled: CompiledObject) -> list[ir.Operation]:
    """Kernels of which a compute unit holds fewer workgroups than it is given; where that is one, nothing is asked."""

    def held(kernel: ir.Operation) -> int:
        return kernel_occupancy(compiled.code_object, text_of(kernel, "sym_name")).workgroups

    return [one for one in functions if workgroups_a_unit(one) > 1 and workgroups_a_unit(one) > held(one)]


def _waves(kernel: ir.Operation, code_object: CodeObject) -> int:
    """Waves of a SIMD when a compute unit has all workgroups that it is given."""
    target = get_target(code_object.target)
    threads = code_object.kernel(text_of(kernel, "sym_name")).metadata.max_flat_workgroup_size
    waves, count = threads // target.wave_size, workgroups_a_unit(kernel)
    return count * ceil(waves / target.simds) if waves >= target.simds else ceil(count * waves / target.simds)
