"""How many waves of a kernel a SIMD holds at a time, and which resource allows no more."""

from __future__ import annotations

from ckmlir.codeobject import CodeObject
from ckmlir.codeobject.occupancy import Limits, Occupancy
from ckmlir.codeobject.occupancy import occupancy as occupancy_within
from ckmlir.targets import Target, get_target


def limits_of(target: Target) -> Limits:
    """What a compute unit of a chip has."""
    return Limits(
        chip=target.name,
        simds=target.simds,
        waves_per_simd=target.waves_per_simd,
        vector_file=target.registers.vector_total,
        vector_granule=target.registers.vector_granule,
        lds_bytes=target.lds_bytes,
        lds_granule=target.lds_granule,
        wave_size=target.wave_size,
        workgroup_size=target.workgroup_size,
    )


def occupancy(
    target: Target, *, vector_registers: int, scalar_registers: int, lds_bytes: int, workgroup_size: int
) -> Occupancy:
    """`codeobject.occupancy.occupancy` within the limits of a target."""
    return occupancy_within(
        limits_of(target),
        vector_registers=vector_registers,
        scalar_registers=scalar_registers,
        lds_bytes=lds_bytes,
        workgroup_size=workgroup_size,
    )


def kernel_occupancy(
    code_object: CodeObject, kernel: str | None = None, *, workgroup_size: int | None = None, dynamic_lds: int = 0
) -> Occupancy:
    """The occupancy of a kernel (default: the only one) of a code object on the chip that it is for.

    workgroup_size: threads it is launched with; by default the most that it was compiled for. dynamic_lds: bytes.

    Raises CodeObjectError for a kernel that is not there, UnsupportedTarget for an unknown chip, and
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


__all__ = ["Limits", "Occupancy", "kernel_occupancy", "limits_of", "occupancy"]
