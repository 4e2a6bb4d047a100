"""How long instructions take and keep a unit busy, as far as schedules need to know.

Cycles are those of the shader clock. Every number has a source; those that no public source gives are marked assumed.
They rank schedules and bound them from below; they do not predict run times. The model of time has the same numbers in
files of its own (`sim/timing/parameters`), since it knows nothing of compilers; a test holds both equal.
"""

from math import ceil

from msgspec import Struct

from ckmlir.targets.target import Target


class Unit(Struct, frozen=True):
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


class Cycles(Struct, frozen=True):
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
LDS_BYTES = 128  # ROCm Compute Profiler documentation, 'Local data share': bytes a cycle
L1_BYTES = 64  # CDNA3 white paper: bytes that a compute unit's L1 cache delivers in a cycle


def matrix_cycles(target: Target, instruction: str) -> Cycles:
    """A matrix instruction, by its name. Its result can be added to by the next one without a wait (CDNA3 ISA 4.5)."""
    busy = target.mfma_cycles[instruction]
    return Cycles(busy, busy, VECTOR_ISSUE, f"{target.name}: table of matrix instructions")


def lds_cycles(target: Target, kind: str, width: int) -> Cycles:
    """An LDS "read" or "write" of `width` bytes a lane without bank conflicts: phases over all banks take the cycles
    that their bytes take.
    """
    access = target.lds_access(kind, width)
    busy = len(access.phases) * max(1, round(4 * access.banks / LDS_BYTES))
    return Cycles(LDS_LATENCY + busy, busy, VECTOR_ISSUE, "assumed: the longest that LLVM's SISchedule.td allows for")


def memory_cycles(target: Target, width: int) -> Cycles:
    """A load, store or copy of `width` bytes a lane."""
    busy = max(1, target.wave_size * width // L1_BYTES)
    return Cycles(MEMORY_LATENCY, busy, VECTOR_ISSUE, "assumed: HBM under load; bytes at the L1 cache's rate")


TRANSCENDENTAL = frozenset({"math.exp2", "math.log2", "math.rsqrt", "math.sqrt", "arith.divf"})
PACKED = frozenset({"arith.addf", "arith.subf", "arith.mulf", "math.fma"})
"""Two elements an instruction in f32, where there are two (CDNA2 ISA, 6.6 "Packed Math")."""
TERNARY = frozenset({"arith.maxnumf", "arith.minnumf"})
"""Chains of them take two elements an instruction (V_MAX3_F32)."""
CONVERSIONS = {"bf16": ("packed_bf16_convert", 7.0), "f16": ("packed_f16_convert", 1.0)}
"""f32 to these: the feature by which one instruction converts two elements, and instructions an element without it in
kernels in pieces; to f16 it is 1.5 in others."""
BRANCHED_AROUND = frozenset({"ck.rescale_vector", "ck.cut_vector"})
"""What waves leave out nearly always: a comparison is left."""
BOUNDED = 1.5
"""Instructions an element of a conversion to bf16 that may take its values for bounded."""


def vector_instructions(target: Target, name: str, elements: int, *, result: str, bounded: bool) -> int:
    """Instructions that an operation on so many elements of a lane becomes, by its name and the type of its results.

    `bounded` is what `ck.convert` says of the elements.
    """
    if name in BRANCHED_AROUND:
        return 1
    each = 1.0
    if (name in PACKED or name in TERNARY) and elements > 1:
        each = 0.5
    elif name == "ck.convert" and result in CONVERSIONS:
        feature, without = CONVERSIONS[result]
        each = 0.5 if target.has(feature) else BOUNDED if bounded and result == "bf16" else without
    elif name == "ck.convert" and bounded:
        each = 0.5  # to 8 bits
    return max(1, ceil(elements * each))


SMALL = frozenset({"f16", "bf16", "fp8", "bf8"})
"""Of conversions to these one instruction converts two elements at most (V_CVT_PK_...)."""


def least_vector_instructions(target: Target, name: str, elements: int, *, result: str) -> int:
    """Instructions that an operation on so many elements of a lane cannot do without, whatever the backend finds.

    Transcendentals are one an element; sums and products two elements each where they can be packed, and so are
    conversions to small types; maxima two in a chain. What may become a part of another instruction, such as masks,
    exchanges of lanes (DPP), conversions to f32 and integer arithmetic, counts for nothing.
    """
    if name in TRANSCENDENTAL:
        return elements
    packs = target.has("packed_f32_math") or result in SMALL
    if name in PACKED:
        return ceil(elements / 2) if packs else elements
    if name in TERNARY or (name == "ck.convert" and result in SMALL):
        return ceil(elements / 2)
    return 0


def vector_cycles(target: Target, name: str, instructions: int) -> Cycles:
    """Arithmetic by the name of its operation, as so many vector instructions."""
    busy = instructions * (target.transcendental_cycles if name in TRANSCENDENTAL else VECTOR_ISSUE)
    return Cycles(busy, busy, busy, "CDNA3 ISA, 'Wavefront'")
