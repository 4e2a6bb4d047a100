"""How deep LDS lets blocks of products be, and whether it keeps their matrix cores waiting."""

from __future__ import annotations

from ckmlir.ops.contraction.block_sizes import FOUR_WAVES, MEDIUM
from ckmlir.ops.contraction.wishes import elements_in
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES
from ckmlir.targets.timing import lds_cycles


def bound_by_lds(schedule: str, dtype: str, target: Target) -> bool:
    """Whether LDS takes as many cycles as the matrix cores for a 128 x 128 block of four waves.

    A block is written once, and read by as many waves as share its rows. Rates are those of the chip's tables, without
    bank conflicts.
    """
    plan, (rows, columns) = parse_schedule(SCHEDULES[schedule]), FOUR_WAVES
    depth = elements_in(128, dtype)
    access = target.wave_size * ACCESS_BYTES
    lds = 0.0
    for tensor, sharing in (("a", columns), ("b", rows)):
        if plan.path_of(tensor) != "straight":
            accesses = MEDIUM * 128 / access
            lds += accesses * sharing * lds_cycles(target, "read", ACCESS_BYTES).busy
            lds += accesses * lds_cycles(target, "write", ACCESS_BYTES).busy
    able = target.mfmas(dtype)
    return bool(able) and lds >= 2 * MEDIUM * MEDIUM * depth / target.mfma_rate(able[0])


def depth_of(size: int, schedule: str, dtype: str, target: Target) -> int:
    """Along K 128 bytes, a full cache line of the rows; half of that where the schedule's LDS buffers would not fit."""
    plan = parse_schedule(SCHEDULES[schedule])
    buffers = sum(plan.buffers_of(tensor) for tensor in "ab" if plan.path_of(tensor) != "straight")
    depth = elements_in(128, dtype)
    return depth if buffers * size * 128 <= target.lds_bytes else depth // 2
