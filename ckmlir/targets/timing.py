"""How long instructions take and keep a unit busy, as far as schedules need to know.

Cycles are those of the shader clock. Every number has a source; those that no public source gives are marked assumed.
They rank schedules and bound them from below; they do not predict run times.
"""

from dataclasses import dataclass

from ckmlir.targets.target import Target


@dataclass(frozen=True, slots=True)
class Unit:
    """What executes instructions: one a SIMD or one a compute unit (`shared` by the waves of all its SIMDs)."""

    name: str
    shared: bool
    source: str


UNITS = {
    unit.name: unit
    for unit in (
        Unit("matrix", False, "CDNA3 ISA, 'Matrix Arithmetic Instructions': one matrix core a SIMD"),
        Unit("vector", False, "CDNA3 ISA, 'Wavefront': a SIMD of 16 lanes takes 4 cycles for 64"),
        Unit("lds", True, "CDNA3 ISA, 'Local Data Share': one a compute unit"),
        Unit("memory", True, "CDNA3 white paper: one L1 cache a compute unit, 64 bytes a cycle"),
    )
}


@dataclass(frozen=True, slots=True)
class Cycles:
    """One instruction: cycles until its result can be used, cycles that its unit is busy, cycles to issue it."""

    latency: int
    busy: int
    issue: int
    source: str

    @property
    def assumed(self) -> bool:
        """Whether no public source gives the latency."""
        return self.source.startswith("assumed")


VECTOR_ISSUE = 4
"""Cycles in which a SIMD issues an instruction for 64 lanes: CDNA3 ISA, 'Wavefront'."""
LDS_LATENCY = 64  # LLVM SISchedule.td, WriteLDS: 'can be between 2 and 64'
MEMORY_LATENCY = 800  # no public number for a loaded HBM
L1_BYTES = 64  # CDNA3 white paper: bytes that a compute unit's L1 cache delivers in a cycle


def matrix_cycles(target: Target, instruction: str) -> Cycles:
    """A matrix instruction, by its name. Its result can be added to by the next one without a wait (CDNA3 ISA 4.5)."""
    busy = target.mfma_cycles[instruction]
    return Cycles(busy, busy, VECTOR_ISSUE, f"{target.name}: table of matrix instructions")


def lds_cycles(target: Target, kind: str, width: int) -> Cycles:
    """An LDS "read" or "write" of `width` bytes a lane without bank conflicts."""
    access = target.lds_access(kind, width)
    busy = len(access.phases)
    return Cycles(LDS_LATENCY + busy, busy, VECTOR_ISSUE, "assumed: the longest that LLVM's SISchedule.td allows for")


def memory_cycles(target: Target, width: int) -> Cycles:
    """A load, store or copy of `width` bytes a lane."""
    busy = max(1, target.wave_size * width // L1_BYTES)
    return Cycles(MEMORY_LATENCY, busy, VECTOR_ISSUE, "assumed: HBM under load; bytes at the L1 cache's rate")


def vector_cycles(instructions: int, *, transcendental: bool = False) -> Cycles:
    """Arithmetic of so many vector instructions; transcendental ones at a quarter of the rate (CDNA3 ISA, 'VALU')."""
    busy = instructions * VECTOR_ISSUE * (4 if transcendental else 1)
    return Cycles(busy, busy, busy, "CDNA3 ISA, 'Wavefront'; packed instructions are not assumed")
