"""What the gfx9 compute chips here (CDNA2, CDNA3, CDNA4) have in common; each chip's module says what differs."""

from ckmlir.targets.matrix_names import LANES
from ckmlir.targets.target import LdsAccess, Registers

WAVE_SIZE = LANES
REGISTER_BITS = 32  # of a lane: CDNA ISA, "VGPRs"
ACCESS_BYTES = 16  # the widest access of a lane: CDNA3 ISA, BUFFER_LOAD_DWORDX4 and DS_READ_B128
SIMDS = 4  # a compute unit; AMD Instinct "Compute unit" architecture pages of the ROCm documentation
WAVES_PER_SIMD = 8  # gfx90a and later: LLVM getMaxWavesPerEU; AMD Omniperf documentation, "Workgroup manager"
WORKGROUP_SIZE = 1024  # LLVM getMaxFlatWorkGroupSize; HIP device property maxThreadsPerBlock
BUFFER_IMMEDIATE = 4095  # 12 bits: CDNA3 ISA, MUBUF instruction format, OFFSET
LDS_IMMEDIATE = 65535  # 16 bits: CDNA3 ISA, DS instruction format, OFFSET0 and OFFSET1 together
KERNARG_PRELOAD = 14  # 16 user SGPRs less the kernarg pointer: LLVM AMDGPUUsage, "Preloaded Kernel Arguments"

# LLVM AMDGPUBaseInfo.cpp (gfx90a: total 512, granule 8); CDNA3 ISA, "VGPR allocation".
REGISTERS = Registers(
    vector_total=512,
    vector_granule=8,
    vector_per_wave=512,
    arch_per_wave=256,
    accumulation_per_wave=256,
)

COMMON_FEATURES = frozenset(
    {
        "packed_f32_math",
        "global_atomic_add_f32",
        "global_atomic_pk_add_f16",
        "buffer_atomic_add_f32",
        "buffer_atomic_pk_add_f16",
        "lds_atomic_add_f32",
        "kernarg_preload",
    }
)


def consecutive(size: int) -> tuple[tuple[int, ...], ...]:
    """Phases of `size` lanes next to each other."""
    return tuple(tuple(range(first, first + size)) for first in range(0, WAVE_SIZE, size))


def by_halves(*groups: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], ...]:
    """Phases of lanes 0 to 31, given as inclusive ranges, and the same again for lanes 32 to 63."""
    lower = [tuple(lane for first, last in group for lane in range(first, last + 1)) for group in groups]
    return (*lower, *(tuple(lane + 32 for lane in group) for group in lower))


_CK = "ROCm documentation of CK Tile, 'LDS bank conflicts'"
_HALF_WAVE = "AMD GCN and CDNA optimisation guides: 32 banks serve half a wave of dwords at a time"

# ds_read_b128 of 32-bank chips pairs lanes that are 20 apart, so that 8 lanes of 16 bytes fill the banks.
INTERLEAVED_READ_B128 = by_halves(((0, 3), (20, 23)), ((4, 7), (16, 19)), ((8, 11), (28, 31)), ((12, 15), (24, 27)))

LDS_WRITES = (
    LdsAccess("write", 4, 32, consecutive(32), _HALF_WAVE),
    LdsAccess("write", 8, 32, consecutive(16), "assumed: 128 bytes a phase in lane order, as measured for gfx950"),
    LdsAccess("write", 12, 32, consecutive(8), "assumed: as 16 bytes"),
    LdsAccess("write", 16, 32, consecutive(8), _CK),
)
LDS_READS_32_BANKS = (
    LdsAccess("read", 4, 32, consecutive(32), _HALF_WAVE),
    LdsAccess("read", 8, 32, consecutive(16), "assumed: 128 bytes a phase in lane order"),
    LdsAccess("read", 12, 32, INTERLEAVED_READ_B128, "assumed: as 16 bytes"),
    LdsAccess("read", 16, 32, INTERLEAVED_READ_B128, _CK),
)
