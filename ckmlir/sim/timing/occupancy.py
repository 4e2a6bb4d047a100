"""How many workgroups of a recorded kernel a compute unit holds, from the numbers of the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ckmlir.codeobject.occupancy import Limits, Occupancy, occupancy
from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.parameters import Parameters

if TYPE_CHECKING:
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
    try:
        return occupancy(
            limits_of(parameters),
            vector_registers=trace.vector_registers,
            scalar_registers=trace.scalar_registers,
            lds_bytes=trace.lds_bytes,
            workgroup_size=math.prod(trace.block),
        )
    except ValueError as error:
        raise CkmlirError(f"{trace.kernel}: {error}") from error
