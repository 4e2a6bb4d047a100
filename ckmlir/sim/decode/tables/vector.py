"""Opcodes of the short vector ALU encodings: VOP1, VOP2.

`ckmlir.sim.decode.opcodes` describes the notation. Numbers, names and operand widths are those of LLVM 22
for the three chips, found by disassembling every opcode number of every encoding.
"""

TABLE = """
VOP1 | <-
  000 v_nop
  035 v_clrexcp
VOP1 e32 e64 sdwa dpp | vdst:b32 <- src0:b32
  001 v_mov_b32
  02b v_not_b32
  02c v_bfrev_b32
  02d v_ffbh_u32
  02e v_ffbl_b32
  02f v_ffbh_i32
  037 v_screen_partition_4se_b32
  04f v_sat_pk_u8_i16
  058 v_prng_b32  gfx950
VOP1 | sdst:b32 <- vsrc0:b32
  002 v_readfirstlane_b32
VOP1 e32 e64 dpp clamp omod | vdst:b32 <- src0:f64
  003 v_cvt_i32_f64
  00f v_cvt_f32_f64
  015 v_cvt_u32_f64
  030 v_frexp_exp_i32_f64
VOP1 e32 e64 dpp clamp omod | vdst:b64 <- src0:b32
  004 v_cvt_f64_i32
  016 v_cvt_f64_u32
VOP1 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:b32
  005 v_cvt_f32_i32
  006 v_cvt_f32_u32
  00e v_cvt_off_f32_i4
  011 v_cvt_f32_ubyte0
  012 v_cvt_f32_ubyte1
  013 v_cvt_f32_ubyte2
  014 v_cvt_f32_ubyte3
  054 v_cvt_f32_fp8  gfx942 gfx950
  055 v_cvt_f32_bf8  gfx942 gfx950
VOP1 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:f32
  007 v_cvt_u32_f32
  008 v_cvt_i32_f32
  00a v_cvt_f16_f32
  01b v_fract_f32
  01c v_trunc_f32
  01d v_ceil_f32
  01e v_rndne_f32
  01f v_floor_f32
  020 v_exp_f32
  021 v_log_f32
  022 v_rcp_f32
  023 v_rcp_iflag_f32
  024 v_rsq_f32
  027 v_sqrt_f32
  029 v_sin_f32
  02a v_cos_f32
  034 v_frexp_mant_f32
  04b v_exp_legacy_f32
  04c v_log_legacy_f32
VOP1 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:f16
  00b v_cvt_f32_f16
  03b v_cvt_u16_f16
  03c v_cvt_i16_f16
  03d v_rcp_f16
  03e v_sqrt_f16
  03f v_rsq_f16
  040 v_log_f16
  041 v_exp_f16
  042 v_frexp_mant_f16
  043 v_frexp_exp_i16_f16
  044 v_floor_f16
  045 v_ceil_f16
  046 v_trunc_f16
  047 v_rndne_f16
  048 v_fract_f16
  049 v_sin_f16
  04a v_cos_f16
  04d v_cvt_norm_i16_f16
  04e v_cvt_norm_u16_f16
VOP1 e32 e64 sdwa dpp clamp | vdst:b32 <- src0:f32
  00c v_cvt_rpi_i32_f32
  00d v_cvt_flr_i32_f32
  033 v_frexp_exp_i32_f32
VOP1 e32 e64 dpp clamp omod | vdst:b64 <- src0:f32
  010 v_cvt_f64_f32
VOP1 e32 e64 dpp clamp omod | vdst:b64 <- src0:f64
  017 v_trunc_f64
  018 v_ceil_f64
  019 v_rndne_f64
  01a v_floor_f64
  025 v_rcp_f64
  026 v_rsq_f64
  028 v_sqrt_f64
  031 v_frexp_mant_f64
  032 v_fract_f64
VOP1 e32 e64 dpp | vdst:b64 <- src0:b64
  038 v_mov_b64  gfx942 gfx950
VOP1 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:b16
  039 v_cvt_f16_u16
  03a v_cvt_f16_i16
VOP1 | vdst:b32 vsrc0:b32 <- vsrc0:b32 vdst:b32
  051 v_swap_b32
VOP1 | adst:b32 <- acc0:b32
  052 v_accvgpr_mov_b32
VOP1 e32 e64 sdwa dpp clamp omod | vdst:b64 <- src0:b32
  056 v_cvt_pk_f32_fp8  gfx942 gfx950
  057 v_cvt_pk_f32_bf8  gfx942 gfx950
VOP1 e32 e64 | vdst:b32 vsrc0:b32 <- vsrc0:b32 vdst:b32
  059 v_permlane16_swap_b32  gfx950
  05a v_permlane32_swap_b32  gfx950
VOP1 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:bf16
  05b v_cvt_f32_bf16  gfx950
VOP2 e32 e64 sdwa dpp | vdst:b32 <- src0:f32 vsrc1:f32 vcc:b64
  000 v_cndmask_b32
VOP2 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:f32 vsrc1:f32
  001 v_add_f32
  002 v_sub_f32
  003 v_subrev_f32
  005 v_mul_f32
  00a v_min_f32
  00b v_max_f32
VOP2 e32 e64 dpp clamp omod | vdst:b64 <- src0:f64 vsrc1:f64
  004 v_fmac_f64
VOP2 e32 e64 sdwa dpp clamp | vdst:b32 <- src0:b32 vsrc1:b32
  006 v_mul_i32_i24
  008 v_mul_u32_u24
  034 v_add_u32
  035 v_sub_u32
  036 v_subrev_u32
VOP2 e32 e64 sdwa dpp | vdst:b32 <- src0:b32 vsrc1:b32
  007 v_mul_hi_i32_i24
  009 v_mul_hi_u32_u24
  00c v_min_i32
  00d v_max_i32
  00e v_min_u32
  00f v_max_u32
  010 v_lshrrev_b32
  011 v_ashrrev_i32
  012 v_lshlrev_b32
  013 v_and_b32
  014 v_or_b32
  015 v_xor_b32
  03d v_xnor_b32
VOP2 e32 e64 dpp clamp omod | vdst:b32 <- src0:f32 vsrc1:f32
  016 v_mac_f32  gfx90a
  03b v_fmac_f32
VOP2 e32 e64 dpp clamp omod | vdst:b32 <- src0:bf16x2 vsrc1:bf16x2
  016 v_dot2c_f32_bf16  gfx950
VOP2 | vdst:b32 <- src0:b32 literal:f32 vsrc1:b32
  017 v_fmamk_f32  gfx942 gfx950
  017 v_madmk_f32  gfx90a
VOP2 | vdst:b32 <- src0:b32 vsrc1:b32 literal:f32
  018 v_fmaak_f32  gfx942 gfx950
  018 v_madak_f32  gfx90a
VOP2 e32 e64 sdwa dpp clamp | vdst:b32 vcc:b64 <- src0:b32 vsrc1:b32
  019 v_add_co_u32
  01a v_sub_co_u32
  01b v_subrev_co_u32
VOP2 e32 e64 sdwa dpp clamp | vdst:b32 vcc:b64 <- src0:b32 vsrc1:b32 vcc:b64
  01c v_addc_co_u32
  01d v_subb_co_u32
  01e v_subbrev_co_u32
VOP2 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:f16 vsrc1:f16
  01f v_add_f16
  020 v_sub_f16
  021 v_subrev_f16
  022 v_mul_f16
  02d v_max_f16
  02e v_min_f16
VOP2 e32 e64 dpp clamp omod | vdst:b32 <- src0:f16 vsrc1:f16
  023 v_mac_f16
VOP2 | vdst:b32 <- src0:f16 literal:f16 vsrc1:f16
  024 v_madmk_f16
VOP2 | vdst:b32 <- src0:f16 vsrc1:f16 literal:f16
  025 v_madak_f16
VOP2 e32 e64 sdwa dpp clamp | vdst:b32 <- src0:b16 vsrc1:b16
  026 v_add_u16
  027 v_sub_u16
  028 v_subrev_u16
VOP2 e32 e64 sdwa dpp | vdst:b32 <- src0:b16 vsrc1:b16
  029 v_mul_lo_u16
  02a v_lshlrev_b16
  02b v_lshrrev_b16
  02c v_ashrrev_i16
  02f v_max_u16
  030 v_max_i16
  031 v_min_u16
  032 v_min_i16
VOP2 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:f16 vsrc1:b32
  033 v_ldexp_f16
VOP2 e32 e64 dpp clamp omod | vdst:b32 <- src0:f16x2 vsrc1:f16x2
  037 v_dot2c_f32_f16
VOP2 e32 e64 dpp clamp | vdst:b32 <- src0:b32 vsrc1:b32
  038 v_dot2c_i32_i16
  039 v_dot4c_i32_i8
  03a v_dot8c_i32_i4
VOP2 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:f16x2 vsrc1:f16x2
  03c v_pk_fmac_f16
"""
