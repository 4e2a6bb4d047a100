"""gfx90a: CDNA2, AMD Instinct MI210, MI250 and MI250X."""

from ckmlir.targets import cdna
from ckmlir.targets.target import Target

# Cycles: AMD matrix instruction calculator, CDNA2; 1 pass is 4 cycles.
MFMA_CYCLES = {
    "f32.32x32x8f16": 64, "f32.16x16x16f16": 32, "f32.32x32x4f16": 64, "f32.16x16x4f16": 32, "f32.4x4x4f16": 8,
    "f32.32x32x8bf16.1k": 64, "f32.16x16x16bf16.1k": 32, "f32.32x32x4bf16.1k": 64, "f32.16x16x4bf16.1k": 32,
    "f32.4x4x4bf16.1k": 8,
    "f32.32x32x4bf16": 64, "f32.16x16x8bf16": 32, "f32.32x32x2bf16": 64, "f32.16x16x2bf16": 32, "f32.4x4x2bf16": 8,
    "f32.32x32x2f32": 64, "f32.16x16x4f32": 32, "f32.32x32x1f32": 64, "f32.16x16x1f32": 32, "f32.4x4x1f32": 8,
    "i32.32x32x8i8": 64, "i32.16x16x16i8": 32, "i32.32x32x4i8": 64, "i32.16x16x4i8": 32, "i32.4x4x4i8": 8,
    "f64.16x16x4f64": 32, "f64.4x4x4f64": 16,
}  # fmt: skip

TARGET = Target(
    name="gfx90a",
    product="MI250X (one die)",
    compute_units=110,  # AMD Instinct MI250X data sheet: 220 on two dies
    wave_size=cdna.WAVE_SIZE,
    simds=cdna.SIMDS,
    waves_per_simd=cdna.WAVES_PER_SIMD,
    workgroup_size=cdna.WORKGROUP_SIZE,
    registers=cdna.REGISTERS,
    lds_bytes=64 * 1024,  # CDNA2 ISA, "Local Data Share"
    memory_bytes=963.8,  # AMD Instinct MI250X data sheet: 3276.8 GB/s of two dies, 1700 MHz
    l2_bytes=4096.0,  # AMD CDNA 2 white paper: 32 channels of 128 bytes
    memory_latency=570,  # te42kyfo/gpu-benches, gpu-latency/mi210.txt: 570 to 580 cycles on an MI210
    lds_granule=512,  # LLVM getLdsDwGranularity: 128 dwords
    lds_accesses=(*cdna.LDS_READS_32_BANKS, *cdna.LDS_WRITES),  # 32 banks of 4 bytes: CDNA2 ISA, "LDS"
    buffer_immediate=cdna.BUFFER_IMMEDIATE,
    lds_immediate=cdna.LDS_IMMEDIATE,
    kernarg_preload=cdna.KERNARG_PRELOAD,
    fp8=None,
    direct_to_lds=(4,),  # CDNA2 ISA 9.1.9: buffer_load_dword … lds
    transcendental_cycles=16,  # CDNA3 ISA, "VALU", taken to hold: a quarter of the rate
    features=cdna.COMMON_FEATURES,
    mfma_cycles=MFMA_CYCLES,
)
