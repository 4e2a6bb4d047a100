"""Where a kernel stands between what the matrix cores and what memory can do. A model, as all of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ckmlir.sim.timing.classes import describe
from ckmlir.sim.timing.events import Unit
from ckmlir.sim.timing.memory_shares import device_units, hbm_bytes_per_cycle
from ckmlir.sim.timing.parameters import Parameters

if TYPE_CHECKING:
    from ckmlir.sim.decode import Instruction
    from ckmlir.sim.timing.recording import Trace


class MatrixWork(Struct, frozen=True):
    """What the matrix cores do for some waves: operations (a multiplication and an addition for each product), and
    cycles that a matrix core is busy."""

    operations: float
    cycles: float


class Roofline(Struct, frozen=True):
    """A kernel's place under the roof.

    Attributes:
        operations, bytes: Of the whole launch: of the matrix cores, and to and from HBM.
        intensity: Operations a byte.
        ridge: The intensity at which matrix cores and HBM take as long.
        peak: Operations a second of all matrix cores with the instructions that the kernel uses; 0 without any.
        bandwidth: Bytes a second of HBM, well used.
        attainable: Operations a second that the roof allows at this intensity.
        achieved: Operations a second. moved: Bytes a second.
        bound: "matrix cores" or "memory".
        share: Of the roof, from 0 to 1: achieved by attainable, or bytes by bandwidth without matrix operations.
    """

    operations: float
    bytes: float
    intensity: float
    ridge: float
    peak: float
    bandwidth: float
    attainable: float
    achieved: float
    moved: float
    bound: str
    share: float


def matrix_operations(instruction: Instruction) -> int:
    """Multiplications and additions of one matrix instruction: all lanes together, zeros of a sparse one included."""
    from ckmlir.sim.analysis.matrix_passes import contraction, is_double

    results = 64 * instruction.destinations[0].count // (2 if is_double(instruction.mnemonic) else 1)
    return 2 * results * contraction(instruction.mnemonic)


def matrix_work(trace: Trace, parameters: Parameters) -> MatrixWork:
    """The work of all recorded waves."""
    code = describe(trace.program, parameters)
    counts = np.bincount(trace.steps["instruction"], minlength=len(trace.program))
    operations = cycles = 0.0
    for number in np.nonzero((code.unit == Unit.MFMA) & (counts > 0))[0].tolist():
        operations += float(counts[number]) * matrix_operations(trace.program[number].instruction)
        cycles += float(counts[number] * code.busy[number])
    return MatrixWork(operations, cycles)


def roofline(parameters: Parameters, work: MatrixWork, bytes: float, cycles: float) -> Roofline:
    """The place of a launch.

    work, bytes: Of the whole launch. cycles: That it takes.
    """
    hertz = parameters.number("chip.clock") * 1e6
    cores = device_units(parameters) * parameters.integer("compute_unit.simds")
    bandwidth = hbm_bytes_per_cycle(parameters) * hertz
    seconds = max(cycles, 1.0) / hertz
    moved = bytes / seconds
    achieved = work.operations / seconds
    if not work.operations:
        return Roofline(0, bytes, 0, 0, 0, bandwidth, 0, 0, moved, "memory", moved / bandwidth)
    peak = work.operations / work.cycles * cores * hertz
    intensity = work.operations / bytes if bytes else float("inf")
    attainable = min(peak, intensity * bandwidth)
    return Roofline(
        operations=work.operations,
        bytes=bytes,
        intensity=intensity,
        ridge=peak / bandwidth,
        peak=peak,
        bandwidth=bandwidth,
        attainable=attainable,
        achieved=achieved,
        moved=moved,
        bound="matrix cores" if intensity * bandwidth >= peak else "memory",
        share=achieved / attainable,
    )
