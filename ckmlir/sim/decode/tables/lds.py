"""Opcodes of LDS instructions: DS.

`ckmlir.sim.decode.opcodes` describes the notation. Numbers, names and operand widths are those of LLVM 22
for the three chips, found by disassembling every opcode number of every encoding.
"""

TABLE = """
DS | <- addr:b32 data0:b32
  000 ds_add_u32
  001 ds_sub_u32
  002 ds_rsub_u32
  003 ds_inc_u32
  004 ds_dec_u32
  005 ds_min_i32
  006 ds_max_i32
  007 ds_min_u32
  008 ds_max_u32
  009 ds_and_b32
  00a ds_or_b32
  00b ds_xor_b32
  00d ds_write_b32
  012 ds_min_f32
  013 ds_max_f32
  015 ds_add_f32
  017 ds_pk_add_f16  gfx942 gfx950
  018 ds_pk_add_bf16  gfx942 gfx950
  01e ds_write_b8
  01f ds_write_b16
  054 ds_write_b8_d16_hi
  055 ds_write_b16_d16_hi
DS | <- addr:b32 data0:b32 data1:b32
  00c ds_mskor_b32
  010 ds_cmpst_b32
  011 ds_cmpst_f32
DS offset2 | <- addr:b32 data0:b32 data1:b32
  00e ds_write2_b32
  00f ds_write2st64_b32
DS | <-
  014 ds_nop
DS | <- data0:b32
  01d ds_write_addtid_b32
DS | vdst:b32 <- addr:b32 data0:b32
  020 ds_add_rtn_u32
  021 ds_sub_rtn_u32
  022 ds_rsub_rtn_u32
  023 ds_inc_rtn_u32
  024 ds_dec_rtn_u32
  025 ds_min_rtn_i32
  026 ds_max_rtn_i32
  027 ds_min_rtn_u32
  028 ds_max_rtn_u32
  029 ds_and_rtn_b32
  02a ds_or_rtn_b32
  02b ds_xor_rtn_b32
  02d ds_wrxchg_rtn_b32
  032 ds_min_rtn_f32
  033 ds_max_rtn_f32
  035 ds_add_rtn_f32
  03e ds_permute_b32
  03f ds_bpermute_b32
  0b7 ds_pk_add_rtn_f16  gfx942 gfx950
  0b8 ds_pk_add_rtn_bf16  gfx942 gfx950
DS | vdst:b32 <- addr:b32 data0:b32 data1:b32
  02c ds_mskor_rtn_b32
  030 ds_cmpst_rtn_b32
  031 ds_cmpst_rtn_f32
  034 ds_wrap_rtn_b32
DS offset2 | vdst:b64 <- addr:b32 data0:b32 data1:b32
  02e ds_wrxchg2_rtn_b32
  02f ds_wrxchg2st64_rtn_b32
DS | vdst:b32 <- addr:b32
  036 ds_read_b32
  039 ds_read_i8
  03a ds_read_u8
  03b ds_read_i16
  03c ds_read_u16
  03d ds_swizzle_b32
  056 ds_read_u8_d16
  057 ds_read_u8_d16_hi
  058 ds_read_i8_d16
  059 ds_read_i8_d16_hi
  05a ds_read_u16_d16
  05b ds_read_u16_d16_hi
DS offset2 | vdst:b64 <- addr:b32
  037 ds_read2_b32
  038 ds_read2st64_b32
DS | <- addr:b32 data0:b64
  040 ds_add_u64
  041 ds_sub_u64
  042 ds_rsub_u64
  043 ds_inc_u64
  044 ds_dec_u64
  045 ds_min_i64
  046 ds_max_i64
  047 ds_min_u64
  048 ds_max_u64
  049 ds_and_b64
  04a ds_or_b64
  04b ds_xor_b64
  04d ds_write_b64
  052 ds_min_f64
  053 ds_max_f64
  05c ds_add_f64
DS | <- addr:b32 data0:b64 data1:b64
  04c ds_mskor_b64
  050 ds_cmpst_b64
  051 ds_cmpst_f64
DS offset2 | <- addr:b32 data0:b64 data1:b64
  04e ds_write2_b64
  04f ds_write2st64_b64
DS | vdst:b64 <- addr:b32 data0:b64
  060 ds_add_rtn_u64
  061 ds_sub_rtn_u64
  062 ds_rsub_rtn_u64
  063 ds_inc_rtn_u64
  064 ds_dec_rtn_u64
  065 ds_min_rtn_i64
  066 ds_max_rtn_i64
  067 ds_min_rtn_u64
  068 ds_max_rtn_u64
  069 ds_and_rtn_b64
  06a ds_or_rtn_b64
  06b ds_xor_rtn_b64
  06d ds_wrxchg_rtn_b64
  072 ds_min_rtn_f64
  073 ds_max_rtn_f64
  07c ds_add_rtn_f64
  07e ds_condxchg32_rtn_b64
DS | vdst:b64 <- addr:b32 data0:b64 data1:b64
  06c ds_mskor_rtn_b64
  070 ds_cmpst_rtn_b64
  071 ds_cmpst_rtn_f64
DS offset2 | vdst:b128 <- addr:b32 data0:b64 data1:b64
  06e ds_wrxchg2_rtn_b64
  06f ds_wrxchg2st64_rtn_b64
DS | vdst:b64 <- addr:b32
  076 ds_read_b64
  0e0 ds_read_b64_tr_b4  gfx950
  0e2 ds_read_b64_tr_b8  gfx950
  0e3 ds_read_b64_tr_b16  gfx950
DS offset2 | vdst:b128 <- addr:b32
  077 ds_read2_b64
  078 ds_read2st64_b64
DS gds | <-
  098 ds_gws_sema_release_all
  09a ds_gws_sema_v
  09c ds_gws_sema_p
DS gds | <- addr:b32
  099 ds_gws_init
  09b ds_gws_sema_br
  09d ds_gws_barrier
DS | vdst:b32 <-
  0b6 ds_read_addtid_b32
  0bd ds_consume
  0be ds_append
DS | <- addr:b32 data0:b96
  0de ds_write_b96
DS | <- addr:b32 data0:b128
  0df ds_write_b128
DS | vdst:b96 <- addr:b32
  0e1 ds_read_b96_tr_b6  gfx950
  0fe ds_read_b96
DS | vdst:b128 <- addr:b32
  0ff ds_read_b128
"""
