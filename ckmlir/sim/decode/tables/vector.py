"""Opcodes of the vector ALU encodings: VOP1, VOP2, VOPC, VOP3, VOP3P.

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
VOPC e32 e64 sdwa | vcc:b64 <- src0:f32 vsrc1:b32
  010 v_cmp_class_f32
  011 v_cmpx_class_f32
VOPC e32 e64 | vcc:b64 <- src0:f64 vsrc1:b32
  012 v_cmp_class_f64
  013 v_cmpx_class_f64
VOPC e32 e64 sdwa | vcc:b64 <- src0:f16 vsrc1:b32
  014 v_cmp_class_f16
  015 v_cmpx_class_f16
VOPC e32 e64 sdwa clamp | vcc:b64 <- src0:f16 vsrc1:f16
  020 v_cmp_f_f16
  021 v_cmp_lt_f16
  022 v_cmp_eq_f16
  023 v_cmp_le_f16
  024 v_cmp_gt_f16
  025 v_cmp_lg_f16
  026 v_cmp_ge_f16
  027 v_cmp_o_f16
  028 v_cmp_u_f16
  029 v_cmp_nge_f16
  02a v_cmp_nlg_f16
  02b v_cmp_ngt_f16
  02c v_cmp_nle_f16
  02d v_cmp_neq_f16
  02e v_cmp_nlt_f16
  02f v_cmp_tru_f16
  030 v_cmpx_f_f16
  031 v_cmpx_lt_f16
  032 v_cmpx_eq_f16
  033 v_cmpx_le_f16
  034 v_cmpx_gt_f16
  035 v_cmpx_lg_f16
  036 v_cmpx_ge_f16
  037 v_cmpx_o_f16
  038 v_cmpx_u_f16
  039 v_cmpx_nge_f16
  03a v_cmpx_nlg_f16
  03b v_cmpx_ngt_f16
  03c v_cmpx_nle_f16
  03d v_cmpx_neq_f16
  03e v_cmpx_nlt_f16
  03f v_cmpx_tru_f16
VOPC e32 e64 sdwa clamp | vcc:b64 <- src0:f32 vsrc1:f32
  040 v_cmp_f_f32
  041 v_cmp_lt_f32
  042 v_cmp_eq_f32
  043 v_cmp_le_f32
  044 v_cmp_gt_f32
  045 v_cmp_lg_f32
  046 v_cmp_ge_f32
  047 v_cmp_o_f32
  048 v_cmp_u_f32
  049 v_cmp_nge_f32
  04a v_cmp_nlg_f32
  04b v_cmp_ngt_f32
  04c v_cmp_nle_f32
  04d v_cmp_neq_f32
  04e v_cmp_nlt_f32
  04f v_cmp_tru_f32
  050 v_cmpx_f_f32
  051 v_cmpx_lt_f32
  052 v_cmpx_eq_f32
  053 v_cmpx_le_f32
  054 v_cmpx_gt_f32
  055 v_cmpx_lg_f32
  056 v_cmpx_ge_f32
  057 v_cmpx_o_f32
  058 v_cmpx_u_f32
  059 v_cmpx_nge_f32
  05a v_cmpx_nlg_f32
  05b v_cmpx_ngt_f32
  05c v_cmpx_nle_f32
  05d v_cmpx_neq_f32
  05e v_cmpx_nlt_f32
  05f v_cmpx_tru_f32
VOPC e32 e64 clamp | vcc:b64 <- src0:f64 vsrc1:f64
  060 v_cmp_f_f64
  061 v_cmp_lt_f64
  062 v_cmp_eq_f64
  063 v_cmp_le_f64
  064 v_cmp_gt_f64
  065 v_cmp_lg_f64
  066 v_cmp_ge_f64
  067 v_cmp_o_f64
  068 v_cmp_u_f64
  069 v_cmp_nge_f64
  06a v_cmp_nlg_f64
  06b v_cmp_ngt_f64
  06c v_cmp_nle_f64
  06d v_cmp_neq_f64
  06e v_cmp_nlt_f64
  06f v_cmp_tru_f64
  070 v_cmpx_f_f64
  071 v_cmpx_lt_f64
  072 v_cmpx_eq_f64
  073 v_cmpx_le_f64
  074 v_cmpx_gt_f64
  075 v_cmpx_lg_f64
  076 v_cmpx_ge_f64
  077 v_cmpx_o_f64
  078 v_cmpx_u_f64
  079 v_cmpx_nge_f64
  07a v_cmpx_nlg_f64
  07b v_cmpx_ngt_f64
  07c v_cmpx_nle_f64
  07d v_cmpx_neq_f64
  07e v_cmpx_nlt_f64
  07f v_cmpx_tru_f64
VOPC e32 e64 sdwa | vcc:b64 <- src0:b16 vsrc1:b16
  0a0 v_cmp_f_i16
  0a1 v_cmp_lt_i16
  0a2 v_cmp_eq_i16
  0a3 v_cmp_le_i16
  0a4 v_cmp_gt_i16
  0a5 v_cmp_ne_i16
  0a6 v_cmp_ge_i16
  0a7 v_cmp_t_i16
  0a8 v_cmp_f_u16
  0a9 v_cmp_lt_u16
  0aa v_cmp_eq_u16
  0ab v_cmp_le_u16
  0ac v_cmp_gt_u16
  0ad v_cmp_ne_u16
  0ae v_cmp_ge_u16
  0af v_cmp_t_u16
  0b0 v_cmpx_f_i16
  0b1 v_cmpx_lt_i16
  0b2 v_cmpx_eq_i16
  0b3 v_cmpx_le_i16
  0b4 v_cmpx_gt_i16
  0b5 v_cmpx_ne_i16
  0b6 v_cmpx_ge_i16
  0b7 v_cmpx_t_i16
  0b8 v_cmpx_f_u16
  0b9 v_cmpx_lt_u16
  0ba v_cmpx_eq_u16
  0bb v_cmpx_le_u16
  0bc v_cmpx_gt_u16
  0bd v_cmpx_ne_u16
  0be v_cmpx_ge_u16
  0bf v_cmpx_t_u16
VOPC e32 e64 sdwa | vcc:b64 <- src0:b32 vsrc1:b32
  0c0 v_cmp_f_i32
  0c1 v_cmp_lt_i32
  0c2 v_cmp_eq_i32
  0c3 v_cmp_le_i32
  0c4 v_cmp_gt_i32
  0c5 v_cmp_ne_i32
  0c6 v_cmp_ge_i32
  0c7 v_cmp_t_i32
  0c8 v_cmp_f_u32
  0c9 v_cmp_lt_u32
  0ca v_cmp_eq_u32
  0cb v_cmp_le_u32
  0cc v_cmp_gt_u32
  0cd v_cmp_ne_u32
  0ce v_cmp_ge_u32
  0cf v_cmp_t_u32
  0d0 v_cmpx_f_i32
  0d1 v_cmpx_lt_i32
  0d2 v_cmpx_eq_i32
  0d3 v_cmpx_le_i32
  0d4 v_cmpx_gt_i32
  0d5 v_cmpx_ne_i32
  0d6 v_cmpx_ge_i32
  0d7 v_cmpx_t_i32
  0d8 v_cmpx_f_u32
  0d9 v_cmpx_lt_u32
  0da v_cmpx_eq_u32
  0db v_cmpx_le_u32
  0dc v_cmpx_gt_u32
  0dd v_cmpx_ne_u32
  0de v_cmpx_ge_u32
  0df v_cmpx_t_u32
VOPC e32 e64 | vcc:b64 <- src0:i64 vsrc1:i64
  0e0 v_cmp_f_i64
  0e1 v_cmp_lt_i64
  0e2 v_cmp_eq_i64
  0e3 v_cmp_le_i64
  0e4 v_cmp_gt_i64
  0e5 v_cmp_ne_i64
  0e6 v_cmp_ge_i64
  0e7 v_cmp_t_i64
  0f0 v_cmpx_f_i64
  0f1 v_cmpx_lt_i64
  0f2 v_cmpx_eq_i64
  0f3 v_cmpx_le_i64
  0f4 v_cmpx_gt_i64
  0f5 v_cmpx_ne_i64
  0f6 v_cmpx_ge_i64
  0f7 v_cmpx_t_i64
VOPC e32 e64 | vcc:b64 <- src0:b64 vsrc1:b64
  0e8 v_cmp_f_u64
  0e9 v_cmp_lt_u64
  0ea v_cmp_eq_u64
  0eb v_cmp_le_u64
  0ec v_cmp_gt_u64
  0ed v_cmp_ne_u64
  0ee v_cmp_ge_u64
  0ef v_cmp_t_u64
  0f8 v_cmpx_f_u64
  0f9 v_cmpx_lt_u64
  0fa v_cmpx_eq_u64
  0fb v_cmpx_le_u64
  0fc v_cmpx_gt_u64
  0fd v_cmpx_ne_u64
  0fe v_cmpx_ge_u64
  0ff v_cmpx_t_u64
VOP3 clamp omod | vdst:b32 <- src0:f32 src1:f32 src2:f32
  1c0 v_mad_legacy_f32  gfx90a
  1c1 v_mad_f32  gfx90a
  1c4 v_cubeid_f32
  1c5 v_cubesc_f32
  1c6 v_cubetc_f32
  1c7 v_cubema_f32
  1cb v_fma_f32
  1d0 v_min3_f32
  1d3 v_max3_f32
  1d6 v_med3_f32
  1de v_div_fixup_f32
  1e2 v_div_fmas_f32
  2a8 v_minimum3_f32  gfx950
  2a9 v_maximum3_f32  gfx950
VOP3 clamp | vdst:b32 <- src0:b32 src1:b32 src2:b32
  1c2 v_mad_i32_i24
  1c3 v_mad_u32_u24
  1d9 v_sad_u8
  1da v_sad_hi_u8
  1db v_sad_u16
  1dc v_sad_u32
  1e4 v_msad_u8
VOP3 | vdst:b32 <- src0:b32 src1:b32 src2:b32
  1c8 v_bfe_u32
  1c9 v_bfe_i32
  1ca v_bfi_b32
  1cd v_lerp_u8
  1d1 v_min3_i32
  1d2 v_min3_u32
  1d4 v_max3_i32
  1d5 v_max3_u32
  1d7 v_med3_i32
  1d8 v_med3_u32
  1ed v_perm_b32
  1f3 v_xad_u32
  1fd v_lshl_add_u32
  1fe v_add_lshl_u32
  1ff v_add3_u32
  200 v_lshl_or_b32
  201 v_and_or_b32
  202 v_or3_b32
  234 v_bitop3_b32  gfx950
VOP3 clamp omod | vdst:b64 <- src0:f64 src1:f64 src2:f64
  1cc v_fma_f64
  1df v_div_fixup_f64
  1e3 v_div_fmas_f64
VOP3 clamp op_sel | vdst:b32 <- src0:b32 src1:b32 src2:b32
  1ce v_alignbit_b32
  1cf v_alignbyte_b32
VOP3 clamp | vdst:b32 <- src0:f32 src1:b32 src2:b32
  1dd v_cvt_pk_u8_f32
VOP3 clamp omod | vdst:b32 sdst:b64 <- src0:f32 src1:f32 src2:f32
  1e0 v_div_scale_f32
VOP3 clamp omod | vdst:b64 sdst:b64 <- src0:f64 src1:f64 src2:f64
  1e1 v_div_scale_f64
VOP3 clamp | vdst:b64 <- src0:b64 src1:b32 src2:b64
  1e5 v_qsad_pk_u16_u8
  1e6 v_mqsad_pk_u16_u8
VOP3 clamp | vdst:b128 <- src0:b64 src1:b32 vsrc2:b128
  1e7 v_mqsad_u32_u8
VOP3 clamp | vdst:b64 sdst:b64 <- src0:b32 src1:b32 src2:b64
  1e8 v_mad_u64_u32
VOP3 clamp | vdst:b64 sdst:b64 <- src0:b32 src1:b32 src2:i64
  1e9 v_mad_i64_i32
VOP3 clamp omod | vdst:b32 <- src0:f16 src1:f16 src2:f16
  1ea v_mad_legacy_f16
  1ee v_fma_legacy_f16
  1ef v_div_fixup_legacy_f16
VOP3 clamp | vdst:b32 <- src0:b16 src1:b16 src2:b16
  1eb v_mad_legacy_u16
  1ec v_mad_legacy_i16
VOP3 clamp | vdst:b32 <- src0:f32 src1:b32
  1f0 v_cvt_pkaccum_u8_f32
VOP3 clamp op_sel | vdst:b32 <- src0:b16 src1:b16 src2:b32
  1f1 v_mad_u32_u16
  1f2 v_mad_i32_i16
VOP3 clamp omod op_sel | vdst:b32 <- src0:f16 src1:f16 src2:f16
  1f4 v_min3_f16
  1f7 v_max3_f16
  1fa v_med3_f16
  203 v_mad_f16
  206 v_fma_f16
  207 v_div_fixup_f16
VOP3 clamp op_sel | vdst:b32 <- src0:b16 src1:b16 src2:b16
  1f5 v_min3_i16
  1f6 v_min3_u16
  1f8 v_max3_i16
  1f9 v_max3_u16
  1fb v_med3_i16
  1fc v_med3_u16
  204 v_mad_u16
  205 v_mad_i16
VOP3 | vdst:b64 <- src0:b64 src1:b32 src2:b64
  208 v_lshl_add_u64  gfx942 gfx950
VOP3 op_sel | vdst:b32 <- src0:b16 src1:b16 src2:b16
  233 v_bitop3_b16  gfx950
VOP3 op_sel | vdst:b32 <- src0:f32 src1:f32 src2:f32
  235 v_cvt_scalef32_pk_fp8_f32  gfx950
  236 v_cvt_scalef32_pk_bf8_f32  gfx950
  23d v_cvt_scalef32_pk_fp4_f32  gfx950
VOP3 op_sel | vdst:b32 <- src0:f32 src1:b32 src2:f32
  237 v_cvt_scalef32_sr_fp8_f32  gfx950
  238 v_cvt_scalef32_sr_bf8_f32  gfx950
VOP3 op_sel | vdst:b64 <- src0:b32 src1:f32
  239 v_cvt_scalef32_pk_f32_fp8  gfx950
  23a v_cvt_scalef32_pk_f32_bf8  gfx950
  23f v_cvt_scalef32_pk_f32_fp4  gfx950
VOP3 op_sel | vdst:b32 <- src0:b32 src1:f32
  23b v_cvt_scalef32_f32_fp8  gfx950
  23c v_cvt_scalef32_f32_bf8  gfx950
  248 v_cvt_scalef32_pk_f16_fp8  gfx950
  249 v_cvt_scalef32_pk_f16_bf8  gfx950
  24a v_cvt_scalef32_f16_fp8  gfx950
  24b v_cvt_scalef32_f16_bf8  gfx950
  250 v_cvt_scalef32_pk_f16_fp4  gfx950
  251 v_cvt_scalef32_pk_bf16_fp4  gfx950
  269 v_cvt_scalef32_pk_bf16_fp8  gfx950
  26a v_cvt_scalef32_pk_bf16_bf8  gfx950
VOP3 op_sel | vdst:b32 <- vsrc0:f32x2 src1:b32 src2:f32
  23e v_cvt_scalef32_sr_pk_fp4_f32  gfx950
VOP3 op_sel | vdst:b32 <- src0:f16 src1:f32
  240 v_cvt_scalef32_pk_fp8_f16  gfx950
  241 v_cvt_scalef32_pk_bf8_f16  gfx950
VOP3 op_sel | vdst:b32 <- src0:f16 src1:b32 src2:f32
  242 v_cvt_scalef32_sr_fp8_f16  gfx950
  243 v_cvt_scalef32_sr_bf8_f16  gfx950
  24e v_cvt_scalef32_sr_pk_fp4_f16  gfx950
VOP3 op_sel | vdst:b32 <- src0:bf16 src1:f32
  244 v_cvt_scalef32_pk_fp8_bf16  gfx950
  245 v_cvt_scalef32_pk_bf8_bf16  gfx950
VOP3 op_sel | vdst:b32 <- src0:bf16 src1:b32 src2:f32
  246 v_cvt_scalef32_sr_fp8_bf16  gfx950
  247 v_cvt_scalef32_sr_bf8_bf16  gfx950
  24f v_cvt_scalef32_sr_pk_fp4_bf16  gfx950
VOP3 op_sel4 | vdst:b32 <- src0:f16 src1:f32
  24c v_cvt_scalef32_pk_fp4_f16  gfx950
VOP3 op_sel4 | vdst:b32 <- src0:bf16 src1:f32
  24d v_cvt_scalef32_pk_fp4_bf16  gfx950
VOP3 | vdst:b192 <- vsrc0:b512 vsrc1:b512 src2:b32
  252 v_cvt_scalef32_2xpk16_fp6_f32  gfx950
  253 v_cvt_scalef32_2xpk16_bf6_f32  gfx950
VOP3 | vdst:b192 <- vsrc0:b1024 src1:b32 src2:b32
  254 v_cvt_scalef32_sr_pk32_fp6_f32  gfx950
  255 v_cvt_scalef32_sr_pk32_bf6_f32  gfx950
VOP3 | vdst:b1024 <- vsrc0:b192 src1:b32
  256 v_cvt_scalef32_pk32_f32_fp6  gfx950
  257 v_cvt_scalef32_pk32_f32_bf6  gfx950
VOP3 | vdst:b192 <- vsrc0:b512 src1:b32
  258 v_cvt_scalef32_pk32_fp6_f16  gfx950
  259 v_cvt_scalef32_pk32_fp6_bf16  gfx950
  25a v_cvt_scalef32_pk32_bf6_f16  gfx950
  25b v_cvt_scalef32_pk32_bf6_bf16  gfx950
VOP3 | vdst:b192 <- vsrc0:b512 src1:b32 src2:b32
  25c v_cvt_scalef32_sr_pk32_fp6_f16  gfx950
  25d v_cvt_scalef32_sr_pk32_fp6_bf16  gfx950
  25e v_cvt_scalef32_sr_pk32_bf6_f16  gfx950
  25f v_cvt_scalef32_sr_pk32_bf6_bf16  gfx950
VOP3 | vdst:b512 <- vsrc0:b192 src1:b32
  260 v_cvt_scalef32_pk32_f16_fp6  gfx950
  261 v_cvt_scalef32_pk32_bf16_fp6  gfx950
  262 v_cvt_scalef32_pk32_f16_bf6  gfx950
  263 v_cvt_scalef32_pk32_bf16_bf6  gfx950
VOP3 op_sel | vdst:b32 <- src0:b32 src1:b32 src2:b32
  265 v_ashr_pk_i8_i32  gfx950
  266 v_ashr_pk_u8_i32  gfx950
VOP3 clamp omod | vdst:b32 <- src0:f32 src1:f32
  267 v_cvt_pk_f16_f32  gfx950
  268 v_cvt_pk_bf16_f32  gfx950
  296 v_cvt_pkrtz_f16_f32
  2a1 v_mul_legacy_f32
VOP3 clamp omod | vdst:b64 <- src0:f64 src1:f64
  280 v_add_f64
  281 v_mul_f64
  282 v_min_f64
  283 v_max_f64
VOP3 clamp omod | vdst:b64 <- src0:f64 src1:b32
  284 v_ldexp_f64
  292 v_trig_preop_f64
VOP3 | vdst:b32 <- src0:b32 src1:b32
  285 v_mul_lo_u32
  286 v_mul_hi_u32
  287 v_mul_hi_i32
  28b v_bcnt_u32_b32
  28c v_mbcnt_lo_u32_b32
  28d v_mbcnt_hi_u32_b32
  293 v_bfm_b32
  297 v_cvt_pk_u16_u32
  298 v_cvt_pk_i16_i32
VOP3 clamp omod | vdst:b32 <- src0:f32 src1:b32
  288 v_ldexp_f32
VOP3 | vsdst:b32 <- vsrc0:b32 ssrc1:b32
  289 v_readlane_b32
VOP3 | vdst:b32 <- ssrc0:b32 ssrc1:b32
  28a v_writelane_b32
VOP3 | vdst:b64 <- src0:b32 src1:b64
  28f v_lshlrev_b64
  290 v_lshrrev_b64
VOP3 | vdst:b64 <- src0:b32 src1:i64
  291 v_ashrrev_i64
VOP3 clamp | vdst:b32 <- src0:f32 src1:f32
  294 v_cvt_pknorm_i16_f32
  295 v_cvt_pknorm_u16_f32
VOP3 clamp op_sel | vdst:b32 <- src0:f16 src1:f16
  299 v_cvt_pknorm_i16_f16
  29a v_cvt_pknorm_u16_f16
  2a0 v_pack_b32_f16
VOP3 clamp | vdst:b32 <- src0:b32 src1:b32
  29c v_add_i32
  29d v_sub_i32
VOP3 clamp op_sel | vdst:b32 <- src0:b16 src1:b16
  29e v_add_i16
  29f v_sub_i16
VOP3 op_sel | vdst:b32 <- src0:f32 src1:f32
  2a2 v_cvt_pk_fp8_f32  gfx942 gfx950
  2a3 v_cvt_pk_bf8_f32  gfx942 gfx950
VOP3 op_sel4 | vdst:b32 <- src0:f32 src1:b32
  2a4 v_cvt_sr_fp8_f32  gfx942 gfx950
  2a5 v_cvt_sr_bf8_f32  gfx942 gfx950
VOP3 op_sel | vdst:b32 <- src0:f32 src1:b32
  2a6 v_cvt_sr_f16_f32  gfx950
  2a7 v_cvt_sr_bf16_f32  gfx950
VOP3P op_sel | vdst:b32 <- src0:b32 src1:b32 src2:b32
  000 v_pk_mad_i16
  009 v_pk_mad_u16
  026 v_dot2_i32_i16
  027 v_dot2_u32_u16
VOP3P op_sel | vdst:b32 <- src0:b32 src1:b32
  001 v_pk_mul_lo_u16
  002 v_pk_add_i16
  003 v_pk_sub_i16
  004 v_pk_lshlrev_b16
  005 v_pk_lshrrev_b16
  006 v_pk_ashrrev_i16
  007 v_pk_max_i16
  008 v_pk_min_i16
  00a v_pk_add_u16
  00b v_pk_sub_u16
  00c v_pk_max_u16
  00d v_pk_min_u16
VOP3P op_sel | vdst:b32 <- src0:f16x2 src1:f16x2 src2:f16x2
  00e v_pk_fma_f16
  01b v_pk_minimum3_f16  gfx950
  01c v_pk_maximum3_f16  gfx950
VOP3P op_sel | vdst:b32 <- src0:f16x2 src1:f16x2
  00f v_pk_add_f16
  010 v_pk_mul_f16
  011 v_pk_min_f16
  012 v_pk_max_f16
VOP3P op_sel | vdst:b32 <- src0:bf16x2 src1:bf16x2 src2:b32
  01a v_dot2_f32_bf16  gfx950
VOP3P mix op_sel | vdst:b32 <- src0:f32 src1:f32 src2:f32
  020 v_fma_mix_f32
  021 v_fma_mixlo_f16
  022 v_fma_mixhi_f16
VOP3P op_sel | vdst:b32 <- src0:f16x2 src1:f16x2 src2:b32
  023 v_dot2_f32_f16
VOP3P | vdst:b32 <- src0:b32 src1:b32 src2:b32
  028 v_dot4_i32_i8
  029 v_dot4_u32_u8
  02a v_dot8_i32_i4
  02b v_dot8_u32_u4
VOP3P op_sel | vdst:b64 <- src0:f32x2 src1:f32x2 src2:f32x2
  030 v_pk_fma_f32
VOP3P op_sel | vdst:b64 <- src0:f32x2 src1:f32x2
  031 v_pk_mul_f32
  032 v_pk_add_f32
VOP3P op_sel | vdst:b64 <- src0:b32x2 src1:b32x2
  033 v_pk_mov_b32
VOP3P plain | vdst:b32 <- acc0:b32
  058 v_accvgpr_read_b32
VOP3P plain | adst:b32 <- src0:b32
  059 v_accvgpr_write_b32
"""
