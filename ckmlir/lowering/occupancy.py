"""How many waves of a kernel a SIMD holds at a time, and which resource allows no more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ckmlir.codeobject import CodeObject
from ckmlir.targets import Target, get_target

# Scalar registers are allocated in blocks from a file of each SIMD (LLVM AMDGPUBaseInfo, getTotalNumSGPRs and
# getSGPRAllocGranule for gfx9). VCC, FLAT_SCRATCH and XNACK_MASK, 6 registers, come on top of those a kernel names.
SCALAR_FILE = 800
SCALAR_GRANULE = 16
# Workgroups of several waves each need one of these (LLVM AMDGPUBaseInfo, getMaxWorkGroupsPerCU).
BARRIERS = 16


@dataclass(frozen=True)
class Occupancy:
    """What fits on a compute unit.

    `limiter` is what would have to shrink for more to fit: "LDS", "vector registers", "scalar registers", "wave slots"
    (nothing can be gained) or "barriers" (one a workgroup). Of resources that allow the same, the first of this list:
    LLVM rounds registers up to what LDS allows anyway.
    """

    workgroups: int
    waves: int
    waves_per_simd: float
    limiter: str


def occupancy(
    target: Target, *, vector_registers: int, scalar_registers: int, lds_bytes: int, workgroup_size: int
) -> Occupancy:
    """The occupancy of a kernel on a chip.

    vector_registers: of one lane, architectural and accumulation registers together, as `.vgpr_count` of a code
        object's metadata counts them on these chips.
    scalar_registers: of a wave, VCC and the like included, as `.sgpr_count` counts them.
    lds_bytes: of a workgroup, static and dynamic together. workgroup_size: in threads.

    Raises ValueError when not even one workgroup fits, naming what is too much.
    """
    if not 0 < workgroup_size <= target.workgroup_size:
        raise ValueError(f"a workgroup of {target.name} has 1 to {target.workgroup_size} threads, not {workgroup_size}")
    waves = math.ceil(workgroup_size / target.wave_size)
    registers = target.registers
    per_simd = {
        "vector registers": registers.vector_total // _allocated(vector_registers, registers.vector_granule),
        "scalar registers": SCALAR_FILE // _allocated(scalar_registers, SCALAR_GRANULE),
        "wave slots": target.waves_per_simd,
    }
    workgroups = {name: _workgroups(slots, waves, target.simds) for name, slots in per_simd.items()}
    order = ["LDS", "vector registers", "scalar registers", "wave slots", "barriers"]
    workgroups["LDS"] = target.lds_bytes // _allocated(lds_bytes, target.lds_granule) if lds_bytes else math.inf
    workgroups["barriers"] = BARRIERS if waves > 1 else math.inf
    limiter = min(order, key=lambda name: workgroups[name])
    fitting = int(workgroups[limiter])
    if fitting == 0:
        used = {
            "vector registers": f"{vector_registers} vector registers a lane",
            "scalar registers": f"{scalar_registers} scalar registers a wave",
            "LDS": f"{lds_bytes} bytes of LDS",
        }
        raise ValueError(f"a workgroup of {workgroup_size} threads with {used[limiter]} does not fit on {target.name}")
    return Occupancy(fitting, fitting * waves, min(target.waves_per_simd, fitting * waves / target.simds), limiter)


def kernel_occupancy(
    code_object: CodeObject, kernel: str | None = None, *, workgroup_size: int | None = None, dynamic_lds: int = 0
) -> Occupancy:
    """The occupancy of a kernel (default: the only one) of a code object on the chip that it is for.

    workgroup_size: threads it is launched with; by default the most that it was compiled for. dynamic_lds: bytes.

    Raises CodeObjectError for a kernel that is not there, UnsupportedTarget for a chip that is none of ours, and
    ValueError when not even one workgroup fits.
    """
    found = code_object.kernel(kernel)
    return occupancy(
        get_target(code_object.target),
        vector_registers=found.descriptor.allocated_vgprs,
        scalar_registers=found.metadata.sgpr_count,
        lds_bytes=found.metadata.group_segment_size + dynamic_lds,
        workgroup_size=found.metadata.max_flat_workgroup_size if workgroup_size is None else workgroup_size,
    )


def _allocated(used: int, granule: int) -> int:
    return max(1, math.ceil(used / granule)) * granule


def _workgroups(slots: int, waves: int, simds: int) -> float:
    """Workgroups of `waves` waves that fit where each SIMD has room for `slots` waves; waves are dealt evenly."""
    if waves < simds:
        return slots * simds // waves
    return slots // math.ceil(waves / simds)
