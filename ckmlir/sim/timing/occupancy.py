"""How many workgroups of a recorded kernel a compute unit holds, from the numbers of the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ckmlir.codeobject.occupancy import Limits, Occupancy, occupancy
from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.parameters import Parameters

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject
    from ckmlir.sim.timing.recording import Trace


def limits_of(parameters: Parameters) -> Limits:
    """What a compute unit has, as the parameters say."""
    integer = parameters.integer
    return Limits(
        chip=parameters.target,
        simds=integer("compute_unit.simds"),
        waves_per_simd=integer("compute_unit.wave_slots"),
        vector_file=integer("registers.vector_total"),
        vector_granule=integer("registers.vector_granule"),
        scalar_file=integer("registers.scalar_total"),
        scalar_granule=integer("registers.scalar_granule"),
        lds_bytes=integer("chip.lds_bytes"),
        lds_granule=integer("chip.lds_granule"),
    )


def trace_occupancy(trace: Trace, parameters: Parameters) -> Occupancy:
    """The occupancy of a recorded kernel.

    Raises:
        CkmlirError: Not even one workgroup fits; it says what is too much.
    """
    used = (trace.vector_registers, trace.scalar_registers, trace.lds_bytes)
    return _occupancy(trace.kernel, parameters, used, math.prod(trace.block))


def kernel_occupancy(
    code_object: CodeObject, kernel: str, parameters: Parameters, workgroup_size: int, dynamic_lds: int = 0
) -> Occupancy:
    """The occupancy of a kernel before it is recorded; errors as `trace_occupancy`."""
    descriptor = code_object.kernel(kernel).descriptor
    lds = descriptor.group_segment_size + dynamic_lds
    used = (descriptor.allocated_vgprs, descriptor.allocated_sgprs, lds)
    return _occupancy(kernel, parameters, used, workgroup_size)


def _occupancy(kernel: str, parameters: Parameters, used: tuple[int, int, int], workgroup_size: int) -> Occupancy:
    """`used`: vector registers, scalar registers, bytes of LDS."""
    try:
        return occupancy(
            limits_of(parameters),
            vector_registers=used[0],
            scalar_registers=used[1],
            lds_bytes=used[2],
            workgroup_size=workgroup_size,
        )
    except ValueError as error:
        raise CkmlirError(f"{kernel}: {error}") from error
