"""Opcodes of the long vector ALU encodings: VOP3, VOP3P.

`ckmlir.sim.decode.opcodes` describes the notation. Numbers, names and operand widths are those of LLVM 22
for the three chips, found by disassembling every opcode number of every encoding.
"""

TABLE = """
VOP3 plain | <-
  140 v_nop
  175 v_clrexcp
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
