"""Opcodes of the matrix instructions (MFMA and SMFMAC), which share VOP3P's opcode space.

`ckmlir.sim.decode.opcodes` describes the notation. Numbers, names and operand widths are those of LLVM 22
for the three chips, found by disassembling every opcode number of every encoding.
"""

TABLE = """
MFMA | vdst:b128 <- src0:b256 src1:b256 src2:b128
  02d v_mfma_f32_16x16x128_f8f6f4  gfx950
MFMA | vdst:b512 <- src0:b256 src1:b256 src2:b512
  02e v_mfma_f32_32x32x64_f8f6f4  gfx950
MFMA | vdst:b128 <- src0:b128 src1:b128 src2:b128
  035 v_mfma_f32_16x16x32_bf16  gfx950
  036 v_mfma_i32_16x16x64_i8  gfx950
  054 v_mfma_f32_16x16x32_f16  gfx950
MFMA | vdst:b512 <- src0:b128 src1:b128 src2:b512
  037 v_mfma_f32_32x32x16_bf16  gfx950
  038 v_mfma_i32_32x32x32_i8  gfx950
  055 v_mfma_f32_32x32x16_f16  gfx950
MFMA | vdst:b128 <- src0:b128 src1:b256 vsrc2:b32
  039 v_smfmac_f32_16x16x64_bf16  gfx950
  03a v_smfmac_i32_16x16x128_i8  gfx950
  03b v_smfmac_f32_16x16x128_bf8_bf8  gfx950
  03c v_smfmac_f32_16x16x128_bf8_fp8  gfx950
  03d v_smfmac_f32_16x16x128_fp8_bf8  gfx950
  043 v_smfmac_f32_16x16x128_fp8_fp8  gfx950
  05a v_smfmac_f32_16x16x64_f16  gfx950
MFMA | vdst:b128 <- src0:b64 src1:b64 src2:b128
  03e v_mfma_f32_16x16x8_xf32  gfx942
  04a v_mfma_f32_4x4x4_16b_f16  gfx942 gfx950
  04a v_mfma_f32_4x4x4f16  gfx90a
  04d v_mfma_f32_16x16x16_f16  gfx942 gfx950
  04d v_mfma_f32_16x16x16f16  gfx90a
  057 v_mfma_i32_16x16x32_i8  gfx942 gfx950
  05f v_mfma_f32_4x4x4_16b_bf16  gfx942 gfx950
  061 v_mfma_f32_16x16x16_bf16  gfx942 gfx950
  065 v_mfma_f32_4x4x4bf16_1k  gfx90a
  067 v_mfma_f32_16x16x16bf16_1k  gfx90a
  070 v_mfma_f32_16x16x32_bf8_bf8  gfx942 gfx950
  071 v_mfma_f32_16x16x32_bf8_fp8  gfx942 gfx950
  072 v_mfma_f32_16x16x32_fp8_bf8  gfx942 gfx950
  073 v_mfma_f32_16x16x32_fp8_fp8  gfx942 gfx950
MFMA | vdst:b512 <- src0:b64 src1:b64 src2:b512
  03f v_mfma_f32_32x32x4_xf32  gfx942
  049 v_mfma_f32_16x16x4_4b_f16  gfx942 gfx950
  049 v_mfma_f32_16x16x4f16  gfx90a
  04c v_mfma_f32_32x32x8_f16  gfx942 gfx950
  04c v_mfma_f32_32x32x8f16  gfx90a
  056 v_mfma_i32_32x32x16_i8  gfx942 gfx950
  05e v_mfma_f32_16x16x4_4b_bf16  gfx942 gfx950
  060 v_mfma_f32_32x32x8_bf16  gfx942 gfx950
  064 v_mfma_f32_16x16x4bf16_1k  gfx90a
  066 v_mfma_f32_32x32x8bf16_1k  gfx90a
  074 v_mfma_f32_32x32x16_bf8_bf8  gfx942 gfx950
  075 v_mfma_f32_32x32x16_bf8_fp8  gfx942 gfx950
  076 v_mfma_f32_32x32x16_fp8_bf8  gfx942 gfx950
  077 v_mfma_f32_32x32x16_fp8_fp8  gfx942 gfx950
MFMA | vdst:b1024 <- src0:b32 src1:b32 src2:b1024
  040 v_mfma_f32_32x32x1_2b_f32  gfx942 gfx950
  040 v_mfma_f32_32x32x1f32  gfx90a
  050 v_mfma_i32_32x32x4_2b_i8  gfx942 gfx950
  050 v_mfma_i32_32x32x4i8  gfx90a
  068 v_mfma_f32_32x32x2bf16  gfx90a
MFMA | vdst:b512 <- src0:b32 src1:b32 src2:b512
  041 v_mfma_f32_16x16x1_4b_f32  gfx942 gfx950
  041 v_mfma_f32_16x16x1f32  gfx90a
  044 v_mfma_f32_32x32x2_f32  gfx942 gfx950
  044 v_mfma_f32_32x32x2f32  gfx90a
  051 v_mfma_i32_16x16x4_4b_i8  gfx942 gfx950
  051 v_mfma_i32_16x16x4i8  gfx90a
  054 v_mfma_i32_32x32x8i8  gfx90a
  069 v_mfma_f32_16x16x2bf16  gfx90a
  06c v_mfma_f32_32x32x4bf16  gfx90a
MFMA | vdst:b128 <- src0:b32 src1:b32 src2:b128
  042 v_mfma_f32_4x4x1_16b_f32  gfx942 gfx950
  042 v_mfma_f32_4x4x1f32  gfx90a
  045 v_mfma_f32_16x16x4_f32  gfx942 gfx950
  045 v_mfma_f32_16x16x4f32  gfx90a
  052 v_mfma_i32_4x4x4_16b_i8  gfx942 gfx950
  052 v_mfma_i32_4x4x4i8  gfx90a
  055 v_mfma_i32_16x16x16i8  gfx90a
  06b v_mfma_f32_4x4x2bf16  gfx90a
  06d v_mfma_f32_16x16x8bf16  gfx90a
MFMA | vdst:b512 <- src0:b128 src1:b256 vsrc2:b32
  046 v_smfmac_f32_32x32x32_bf16  gfx950
  047 v_smfmac_i32_32x32x64_i8  gfx950
  04b v_smfmac_f32_32x32x64_bf8_bf8  gfx950
  04e v_smfmac_f32_32x32x64_bf8_fp8  gfx950
  04f v_smfmac_f32_32x32x64_fp8_bf8  gfx950
  053 v_smfmac_f32_32x32x64_fp8_fp8  gfx950
  05b v_smfmac_f32_32x32x32_f16  gfx950
MFMA | vdst:b1024 <- src0:b64 src1:b64 src2:b1024
  048 v_mfma_f32_32x32x4_2b_f16  gfx942 gfx950
  048 v_mfma_f32_32x32x4f16  gfx90a
  05d v_mfma_f32_32x32x4_2b_bf16  gfx942 gfx950
  063 v_mfma_f32_32x32x4bf16_1k  gfx90a
MFMA | vdst:b128 <- src0:b64 src1:b128 vsrc2:b32
  062 v_smfmac_f32_16x16x32_f16  gfx942 gfx950
  066 v_smfmac_f32_16x16x32_bf16  gfx942 gfx950
  06a v_smfmac_i32_16x16x64_i8  gfx942 gfx950
  078 v_smfmac_f32_16x16x64_bf8_bf8  gfx942 gfx950
  079 v_smfmac_f32_16x16x64_bf8_fp8  gfx942 gfx950
  07a v_smfmac_f32_16x16x64_fp8_bf8  gfx942 gfx950
  07b v_smfmac_f32_16x16x64_fp8_fp8  gfx942 gfx950
MFMA | vdst:b512 <- src0:b64 src1:b128 vsrc2:b32
  064 v_smfmac_f32_32x32x16_f16  gfx942 gfx950
  068 v_smfmac_f32_32x32x16_bf16  gfx942 gfx950
  06c v_smfmac_i32_32x32x32_i8  gfx942 gfx950
  07c v_smfmac_f32_32x32x32_bf8_bf8  gfx942 gfx950
  07d v_smfmac_f32_32x32x32_bf8_fp8  gfx942 gfx950
  07e v_smfmac_f32_32x32x32_fp8_bf8  gfx942 gfx950
  07f v_smfmac_f32_32x32x32_fp8_fp8  gfx942 gfx950
MFMA | vdst:b256 <- src0:b64 src1:b64 src2:f64x4
  06e v_mfma_f64_16x16x4_f64  gfx942 gfx950
  06e v_mfma_f64_16x16x4f64  gfx90a
MFMA | vdst:b64 <- src0:b64 src1:b64 src2:f64
  06f v_mfma_f64_4x4x4_4b_f64  gfx942 gfx950
  06f v_mfma_f64_4x4x4f64  gfx90a
"""
