"""gfx942: CDNA3, AMD Instinct MI300A, MI300X and MI325X."""

from ckmlir.targets import cdna
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS, sparse_cycles
from ckmlir.targets.target import Target

# Cycles: AMD matrix instruction calculator, CDNA3; they reproduce the published peaks of the MI300X.
MFMA_CYCLES = {
    "f32.32x32x8f16": 32, "f32.16x16x16f16": 16, "f32.32x32x4f16": 64, "f32.16x16x4f16": 32, "f32.4x4x4f16": 8,
    "f32.32x32x8bf16.1k": 32, "f32.16x16x16bf16.1k": 16, "f32.32x32x4bf16.1k": 64, "f32.16x16x4bf16.1k": 32,
    "f32.4x4x4bf16.1k": 8,
    "f32.32x32x2f32": 64, "f32.16x16x4f32": 32, "f32.32x32x1f32": 64, "f32.16x16x1f32": 32, "f32.4x4x1f32": 8,
    "f32.32x32x4.xf32": 32, "f32.16x16x8.xf32": 16,
    "i32.32x32x16.i8": 32, "i32.16x16x32.i8": 16, "i32.32x32x4i8": 64, "i32.16x16x4i8": 32, "i32.4x4x4i8": 8,
    "f64.16x16x4f64": 32, "f64.4x4x4f64": 16,
    **{f"f32.32x32x16.{a}.{b}": 32 for a in EIGHT_BIT_FLOATS for b in EIGHT_BIT_FLOATS},
    **{f"f32.16x16x32.{a}.{b}": 16 for a in EIGHT_BIT_FLOATS for b in EIGHT_BIT_FLOATS},
    **sparse_cycles(16),
}  # fmt: skip

FEATURES = cdna.COMMON_FEATURES | {
    "mfma_denormals",  # PyTorch numerical accuracy notes: MI200 flushes f16 and bf16 denormals in MFMA, MI300 does not
    "fp8_convert",
    "lshl_add_u64",
    "global_atomic_pk_add_bf16",
    "lds_atomic_pk_add_f16",
    "lds_atomic_pk_add_bf16",
}

TARGET = Target(
    name="gfx942",
    product="MI300X",
    compute_units=304,  # AMD Instinct MI300X data sheet
    wave_size=cdna.WAVE_SIZE,
    simds=cdna.SIMDS,
    waves_per_simd=cdna.WAVES_PER_SIMD,
    workgroup_size=cdna.WORKGROUP_SIZE,
    registers=cdna.REGISTERS,
    lds_bytes=64 * 1024,  # CDNA3 ISA, "Local Data Share"
    memory_bytes=2523.8,  # AMD Instinct MI300X data sheet: 5.3 TB/s, 2100 MHz
    l2_bytes=16384.0,  # AMD CDNA 3 white paper: 16 channels of 128 bytes on each of 8 dies
    memory_latency=760,  # assumed, as by the model of time
    lds_granule=512,  # LLVM getLdsDwGranularity: 128 dwords
    lds_accesses=(*cdna.LDS_READS_32_BANKS, *cdna.LDS_WRITES),  # 32 banks of 4 bytes: CDNA3 ISA, "LDS"
    buffer_immediate=cdna.BUFFER_IMMEDIATE,
    lds_immediate=cdna.LDS_IMMEDIATE,
    kernarg_preload=cdna.KERNARG_PRELOAD,
    fp8="fnuz",  # CDNA3 ISA, "Data formats": exponent bias 8 (e4m3) and 16 (e5m2), no infinities, no negative zero
    direct_to_lds=(4,),  # CDNA3 ISA 9.1.9: 1, 2 and 4 bytes into one dword of LDS
    transcendental_cycles=16,  # CDNA3 ISA, "VALU": a quarter of the rate
    features=FEATURES,
    mfma_cycles=MFMA_CYCLES,
)
