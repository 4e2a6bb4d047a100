"""Kernels that have a loop for whole turns beside another (`ck-split-at-edges`), where that takes too many registers.

LLVM takes up to 18 registers more for two loops than for one. Where a SIMD would hold another wave with so many less, a
kernel is compiled again with the wish for it (`resident_waves`), and where that spills, or the kernel did, without the
loop for whole turns. By the model attention over pages in f16 with 32 channels on gfx942 takes .88 of one loop's cycles
by that wish, and 1.03 without it, in fp8 with 80 channels on gfx950 1.24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.build import text_of, value
from ckmlir.dialect.control import end_of
from ckmlir.lowering.codeobject import CompiledObject
from ckmlir.lowering.occupancy import kernel_occupancy, occupancy
from ckmlir.lowering.resident_waves import kernels, spilled, wish, wished, withdraw
from ckmlir.mlir import ir
from ckmlir.passes.split_at_edges import ENTERS
from ckmlir.targets import get_target

FEW = 20
"""Registers by which a kernel may miss another wave."""


def emitted_with_room(module: ir.Module, emit: Callable[[], CompiledObject]) -> CompiledObject:
    """What `emit` makes of a lowered module, which is left as it makes that of it."""
    found = emit()
    split = {} if wished(module) else {text_of(one, "sym_name"): one for one in kernels(module) if _entrances(one)}
    near = {name: waves for name in split if (waves := _nearly(found.code_object, name))}
    if split and spilled(found.code_object):
        return _without(split.values(), emit, lambda other: not spilled(other)) or found
    if not near:
        return found
    for name, waves in near.items():
        wish(split[name], waves)
    again = emit()
    if not spilled(again.code_object):
        return again
    withdraw(module)

    def has_room(other: CodeObject) -> bool:
        return all(_waves(other, name) > _waves(found.code_object, name) for name in near)

    return _without([split[name] for name in near], emit, has_room) or found


def _without(
    kernels: Iterable[ir.Operation], emit: Callable[[], CompiledObject], pays: Callable[[CodeObject], bool]
) -> CompiledObject | None:
    """What becomes of kernels whose loops take all turns; None where that does not pay, and they are as they were."""
    entrances = [end for kernel in kernels for end in _entrances(kernel)]
    conditions = [end.operands[0] for end in entrances]
    for end in entrances:
        with ir.InsertionPoint(end), end.location:
            never = ir.IntegerAttr.get(ir.IntegerType.get_signless(1), 0)
            end.operands[0] = value("llvm.mlir.constant", never.type, [], {"value": never})
    found = emit()
    if pays(found.code_object):
        return found
    for end, condition in zip(entrances, conditions, strict=True):
        end.operands[0] = condition
    return None


def _entrances(kernel: ir.Operation) -> list[ir.Operation]:
    """The branches to loops for whole turns."""
    return [end for block in kernel.regions[0] if ENTERS in (end := end_of(block)).attributes]


def _waves(code_object: CodeObject, name: str) -> float:
    return kernel_occupancy(code_object, name).waves_per_simd


def _nearly(code_object: CodeObject, name: str) -> int:
    """Waves of a kernel that a SIMD would hold if it took a few registers less, 0 if no more than it does."""
    kernel = code_object.kernel(name)
    less = occupancy(
        get_target(code_object.target),
        vector_registers=max(kernel.descriptor.allocated_vgprs - FEW, 1),
        scalar_registers=kernel.metadata.sgpr_count,
        lds_bytes=kernel.metadata.group_segment_size,
        workgroup_size=kernel.metadata.max_flat_workgroup_size,
    )
    return ceil(less.waves_per_simd) if less.waves_per_simd > _waves(code_object, name) else 0
