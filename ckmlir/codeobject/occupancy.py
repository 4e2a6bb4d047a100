"""How many workgroups of a kernel a compute unit holds at a time, and what allows no more: the rule.

What the chip has are numbers that the caller brings: the compiler those of its targets, the timing model its
parameters.
"""

import math

from msgspec import Struct

# Scalar registers are allocated in blocks from a file of each SIMD (LLVM AMDGPUBaseInfo, getTotalNumSGPRs and
# getSGPRAllocGranule for gfx9). VCC, FLAT_SCRATCH and XNACK_MASK, 6 registers, come on top of those a kernel names.
SCALAR_FILE = 800
SCALAR_GRANULE = 16
# Workgroups of several waves each need one of these (LLVM AMDGPUBaseInfo, getMaxWorkGroupsPerCU).
BARRIERS = 16


class Limits(Struct, frozen=True):
    """What a compute unit of a chip has. Registers: in the file of one SIMD; granules: in which a wave, or for LDS a
    workgroup, gets them. `workgroup_size`: most work-items of a workgroup."""

    chip: str
    simds: int
    waves_per_simd: int
    vector_file: int
    vector_granule: int
    lds_bytes: int
    lds_granule: int
    scalar_file: int = SCALAR_FILE
    scalar_granule: int = SCALAR_GRANULE
    wave_size: int = 64
    workgroup_size: int = 1024
    barriers: int = BARRIERS


class Occupancy(Struct, frozen=True):
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
    limits: Limits, *, vector_registers: int, scalar_registers: int, lds_bytes: int, workgroup_size: int
) -> Occupancy:
    """The occupancy of a kernel on a chip.

    vector_registers: of one lane, architectural and accumulation registers together, as `.vgpr_count` of a code
        object's metadata counts them on these chips.
    scalar_registers: of a wave, VCC and the like included, as `.sgpr_count` counts them.
    lds_bytes: of a workgroup, static and dynamic together. workgroup_size: in work-items.

    Raises ValueError when not even one workgroup fits, naming what is too much.
    """
    if not 0 < workgroup_size <= limits.workgroup_size:
        raise ValueError(f"a workgroup of {limits.chip} has 1 to {limits.workgroup_size} threads, not {workgroup_size}")
    waves = math.ceil(workgroup_size / limits.wave_size)
    per_simd = {
        "vector registers": limits.vector_file // _allocated(vector_registers, limits.vector_granule),
        "scalar registers": limits.scalar_file // _allocated(scalar_registers, limits.scalar_granule),
        "wave slots": limits.waves_per_simd,
    }
    workgroups = {name: _workgroups(slots, waves, limits.simds) for name, slots in per_simd.items()}
    order = ["LDS", "vector registers", "scalar registers", "wave slots", "barriers"]
    workgroups["LDS"] = limits.lds_bytes // _allocated(lds_bytes, limits.lds_granule) if lds_bytes else math.inf
    workgroups["barriers"] = limits.barriers if waves > 1 else math.inf
    limiter = min(order, key=lambda name: workgroups[name])
    fitting = int(workgroups[limiter])
    if fitting == 0:
        used = {
            "vector registers": f"{vector_registers} vector registers a lane",
            "scalar registers": f"{scalar_registers} scalar registers a wave",
            "LDS": f"{lds_bytes} bytes of LDS",
        }
        raise ValueError(f"a workgroup of {workgroup_size} threads with {used[limiter]} does not fit on {limits.chip}")
    return Occupancy(fitting, fitting * waves, min(limits.waves_per_simd, fitting * waves / limits.simds), limiter)


def _allocated(used: int, granule: int) -> int:
    return max(1, math.ceil(used / granule)) * granule


def _workgroups(slots: int, waves: int, simds: int) -> float:
    """Workgroups of `waves` waves that fit where each SIMD has room for `slots` waves; waves are dealt evenly."""
    if waves < simds:
        return slots * simds // waves
    return slots // math.ceil(waves / simds)
