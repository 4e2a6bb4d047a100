"""gfx950: CDNA4, AMD Instinct MI350X and MI355X."""

from ckmlir.targets import cdna, gfx942
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS, NARROW, sparse_cycles
from ckmlir.targets.target import LdsAccess, Target


def _f8f6f4(shape: str, cycles: int) -> dict[str, int]:
    """Both operands of 6 or 4 bits take half the cycles."""
    return {
        f"f32.{shape}.f8f6f4.{a}.{b}": cycles if a in EIGHT_BIT_FLOATS or b in EIGHT_BIT_FLOATS else cycles // 2
        for a in NARROW
        for b in NARROW
    }


# Cycles: those of gfx942 for what it has, without xf32 (CDNA4 ISA), and without sparse instructions, of which the new
# ones take twice the depth in the same time; the new ones follow from the published peaks of the
# MI355X (2.5 PFLOPS f16, 5 fp8, 10 fp4, 78.6 TFLOPS f64: half the rate of gfx942, so twice the cycles).
MFMA_CYCLES = {
    **{name: cycles for name, cycles in gfx942.MFMA_CYCLES.items()
       if "xf32" not in name and not name.startswith("smfmac")},
    "f64.16x16x4f64": 64, "f64.4x4x4f64": 32,
    "f32.32x32x16.f16": 32, "f32.16x16x32.f16": 16, "f32.32x32x16.bf16": 32, "f32.16x16x32.bf16": 16,
    "i32.32x32x32.i8": 32, "i32.16x16x64.i8": 16,
    **_f8f6f4("16x16x128", 32),
    **_f8f6f4("32x32x64", 64),
    **sparse_cycles(32),
}  # fmt: skip

FEATURES = gfx942.FEATURES | {
    "scaled_convert",
    "packed_f16_convert",
    "packed_bf16_convert",
    "lds_transpose_read",
    "permlane_swap",
    "bitop3",
    "maximum3",
    "prng",
    "buffer_atomic_pk_add_bf16",
}

_STUDY = "a bank conflict study published without the name of its GPU; 16 lanes of 16 bytes fill 64 banks"
LDS_READS = (  # 64 banks of 4 bytes for reads
    LdsAccess("read", 4, 64, cdna.consecutive(64), "assumed: 256 bytes a phase"),
    LdsAccess("read", 8, 64, cdna.consecutive(32), "assumed: 256 bytes a phase in lane order"),
    LdsAccess(
        "read",
        12,
        64,
        cdna.by_halves(((0, 3), (12, 15), (20, 27)), ((4, 11), (16, 19), (28, 31))),
        "assumed: as 16 bytes",
    ),
    LdsAccess("read", 16, 64, cdna.by_halves(((0, 3), (12, 15), (20, 27)), ((4, 11), (16, 19), (28, 31))), _STUDY),
)

TARGET = Target(
    name="gfx950",
    product="MI355X",
    compute_units=256,  # AMD Instinct MI355X data sheet
    wave_size=cdna.WAVE_SIZE,
    simds=cdna.SIMDS,
    waves_per_simd=cdna.WAVES_PER_SIMD,
    workgroup_size=cdna.WORKGROUP_SIZE,
    registers=cdna.REGISTERS,
    lds_bytes=160 * 1024,  # CDNA4 ISA, "Local Data Share"
    memory_bytes=3333.3,  # AMD Instinct MI355X data sheet: 8 TB/s, 2400 MHz
    l2_bytes=16384.0,  # assumed to be the MI300X's
    memory_latency=870,  # assumed, as by the model of time
    lds_granule=1280,  # LLVM getLdsDwGranularity: 320 dwords
    lds_accesses=(*LDS_READS, *cdna.LDS_WRITES),
    buffer_immediate=cdna.BUFFER_IMMEDIATE,
    lds_immediate=cdna.LDS_IMMEDIATE,
    kernarg_preload=cdna.KERNARG_PRELOAD,
    fp8="ocp",  # CDNA4 ISA, "Data formats": exponent bias 7 (e4m3, no infinity) and 15 (e5m2)
    direct_to_lds=(4, 12, 16),  # CDNA4 ISA 9.1.9: buffer_load_dword, dwordx3 and dwordx4 … lds
    transcendental_cycles=8,  # CDNA4 white paper: twice the transcendental rate of CDNA3
    features=FEATURES,
    mfma_cycles=MFMA_CYCLES,
)
