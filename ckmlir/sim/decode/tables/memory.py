"""Opcodes of the memory encodings: DS, FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF.

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
FLAT | vdst:b32 <- addr:b64
  010 flat_load_ubyte
  011 flat_load_sbyte
  012 flat_load_ushort
  013 flat_load_sshort
  014 flat_load_dword
  020 flat_load_ubyte_d16
  021 flat_load_ubyte_d16_hi
  022 flat_load_sbyte_d16
  023 flat_load_sbyte_d16_hi
  024 flat_load_short_d16
  025 flat_load_short_d16_hi
FLAT | vdst:b64 <- addr:b64
  015 flat_load_dwordx2
FLAT | vdst:b96 <- addr:b64
  016 flat_load_dwordx3
FLAT | vdst:b128 <- addr:b64
  017 flat_load_dwordx4
FLAT | <- addr:b64 data:b32
  018 flat_store_byte
  019 flat_store_byte_d16_hi
  01a flat_store_short
  01b flat_store_short_d16_hi
  01c flat_store_dword
FLAT | <- addr:b64 data:b64
  01d flat_store_dwordx2
FLAT | <- addr:b64 data:b96
  01e flat_store_dwordx3
FLAT | <- addr:b64 data:b128
  01f flat_store_dwordx4
FLAT returns | vdst:b32 <- addr:b64 data:b32
  040 flat_atomic_swap
  042 flat_atomic_add
  043 flat_atomic_sub
  044 flat_atomic_smin
  045 flat_atomic_umin
  046 flat_atomic_smax
  047 flat_atomic_umax
  048 flat_atomic_and
  049 flat_atomic_or
  04a flat_atomic_xor
  04b flat_atomic_inc
  04c flat_atomic_dec
  04d flat_atomic_add_f32  gfx942 gfx950
  04e flat_atomic_pk_add_f16  gfx942 gfx950
  052 flat_atomic_pk_add_bf16  gfx942 gfx950
FLAT returns | vdst:b32 <- addr:b64 data:b64
  041 flat_atomic_cmpswap
FLAT returns | vdst:b64 <- addr:b64 data:b64
  04f flat_atomic_add_f64
  050 flat_atomic_min_f64
  051 flat_atomic_max_f64
  060 flat_atomic_swap_x2
  062 flat_atomic_add_x2
  063 flat_atomic_sub_x2
  064 flat_atomic_smin_x2
  065 flat_atomic_umin_x2
  066 flat_atomic_smax_x2
  067 flat_atomic_umax_x2
  068 flat_atomic_and_x2
  069 flat_atomic_or_x2
  06a flat_atomic_xor_x2
  06b flat_atomic_inc_x2
  06c flat_atomic_dec_x2
FLAT returns | vdst:b64 <- addr:b64 data:b128
  061 flat_atomic_cmpswap_x2
GLOBAL lds | vdst:b32 <- addr:address saddr:address
  010 global_load_ubyte  gfx90a
  011 global_load_sbyte  gfx90a
  012 global_load_ushort  gfx90a
  013 global_load_sshort  gfx90a
  014 global_load_dword  gfx90a
GLOBAL | vdst:b32 <- addr:address saddr:address
  010 global_load_ubyte  gfx942 gfx950
  011 global_load_sbyte  gfx942 gfx950
  012 global_load_ushort  gfx942 gfx950
  013 global_load_sshort  gfx942 gfx950
  014 global_load_dword  gfx942 gfx950
  020 global_load_ubyte_d16
  021 global_load_ubyte_d16_hi
  022 global_load_sbyte_d16
  023 global_load_sbyte_d16_hi
  024 global_load_short_d16
  025 global_load_short_d16_hi
GLOBAL | vdst:b64 <- addr:address saddr:address
  015 global_load_dwordx2
GLOBAL | vdst:b96 <- addr:address saddr:address
  016 global_load_dwordx3
GLOBAL | vdst:b128 <- addr:address saddr:address
  017 global_load_dwordx4
GLOBAL | <- addr:address data:b32 saddr:address
  018 global_store_byte
  019 global_store_byte_d16_hi
  01a global_store_short
  01b global_store_short_d16_hi
  01c global_store_dword
GLOBAL | <- addr:address data:b64 saddr:address
  01d global_store_dwordx2
GLOBAL | <- addr:address data:b96 saddr:address
  01e global_store_dwordx3
GLOBAL | <- addr:address data:b128 saddr:address
  01f global_store_dwordx4
GLOBAL | <- addr:address saddr:address
  026 global_load_lds_ubyte  gfx942 gfx950
  027 global_load_lds_sbyte  gfx942 gfx950
  028 global_load_lds_ushort  gfx942 gfx950
  029 global_load_lds_sshort  gfx942 gfx950
  02a global_load_lds_dword  gfx942 gfx950
  07d global_load_lds_dwordx4  gfx950
  07e global_load_lds_dwordx3  gfx950
GLOBAL returns | vdst:b32 <- addr:address data:b32 saddr:address
  040 global_atomic_swap
  042 global_atomic_add
  043 global_atomic_sub
  044 global_atomic_smin
  045 global_atomic_umin
  046 global_atomic_smax
  047 global_atomic_umax
  048 global_atomic_and
  049 global_atomic_or
  04a global_atomic_xor
  04b global_atomic_inc
  04c global_atomic_dec
  04d global_atomic_add_f32
  04e global_atomic_pk_add_f16
  052 global_atomic_pk_add_bf16  gfx942 gfx950
GLOBAL returns | vdst:b32 <- addr:address data:b64 saddr:address
  041 global_atomic_cmpswap
GLOBAL returns | vdst:b64 <- addr:address data:b64 saddr:address
  04f global_atomic_add_f64
  050 global_atomic_min_f64
  051 global_atomic_max_f64
  060 global_atomic_swap_x2
  062 global_atomic_add_x2
  063 global_atomic_sub_x2
  064 global_atomic_smin_x2
  065 global_atomic_umin_x2
  066 global_atomic_smax_x2
  067 global_atomic_umax_x2
  068 global_atomic_and_x2
  069 global_atomic_or_x2
  06a global_atomic_xor_x2
  06b global_atomic_inc_x2
  06c global_atomic_dec_x2
GLOBAL returns | vdst:b64 <- addr:address data:b128 saddr:address
  061 global_atomic_cmpswap_x2
SCRATCH lds | vdst:b32 <- addr:b32 saddr:b32
  010 scratch_load_ubyte  gfx90a
  011 scratch_load_sbyte  gfx90a
  012 scratch_load_ushort  gfx90a
  013 scratch_load_sshort  gfx90a
  014 scratch_load_dword  gfx90a
SCRATCH | vdst:b32 <- addr:b32 saddr:b32
  010 scratch_load_ubyte  gfx942 gfx950
  011 scratch_load_sbyte  gfx942 gfx950
  012 scratch_load_ushort  gfx942 gfx950
  013 scratch_load_sshort  gfx942 gfx950
  014 scratch_load_dword  gfx942 gfx950
  020 scratch_load_ubyte_d16
  021 scratch_load_ubyte_d16_hi
  022 scratch_load_sbyte_d16
  023 scratch_load_sbyte_d16_hi
  024 scratch_load_short_d16
  025 scratch_load_short_d16_hi
SCRATCH | vdst:b64 <- addr:b32 saddr:b32
  015 scratch_load_dwordx2
SCRATCH | vdst:b96 <- addr:b32 saddr:b32
  016 scratch_load_dwordx3
SCRATCH | vdst:b128 <- addr:b32 saddr:b32
  017 scratch_load_dwordx4
SCRATCH | <- addr:b32 data:b32 saddr:b32
  018 scratch_store_byte
  019 scratch_store_byte_d16_hi
  01a scratch_store_short
  01b scratch_store_short_d16_hi
  01c scratch_store_dword
SCRATCH | <- addr:b32 data:b64 saddr:b32
  01d scratch_store_dwordx2
SCRATCH | <- addr:b32 data:b96 saddr:b32
  01e scratch_store_dwordx3
SCRATCH | <- addr:b32 data:b128 saddr:b32
  01f scratch_store_dwordx4
SCRATCH | <- addr:b32 saddr:b32
  026 scratch_load_lds_ubyte  gfx942 gfx950
  027 scratch_load_lds_sbyte  gfx942 gfx950
  028 scratch_load_lds_ushort  gfx942 gfx950
  029 scratch_load_lds_sshort  gfx942 gfx950
  02a scratch_load_lds_dword  gfx942 gfx950
MUBUF lds | vdata:b32 <- vaddr:address srsrc:b128 soffset:b32
  000 buffer_load_format_x
  010 buffer_load_ubyte
  011 buffer_load_sbyte
  012 buffer_load_ushort
  013 buffer_load_sshort
  014 buffer_load_dword
MUBUF | vdata:b64 <- vaddr:address srsrc:b128 soffset:b32
  001 buffer_load_format_xy
  00a buffer_load_format_d16_xyz
  00b buffer_load_format_d16_xyzw
  015 buffer_load_dwordx2
MUBUF | vdata:b96 <- vaddr:address srsrc:b128 soffset:b32
  002 buffer_load_format_xyz
  016 buffer_load_dwordx3  gfx90a gfx942
MUBUF | vdata:b128 <- vaddr:address srsrc:b128 soffset:b32
  003 buffer_load_format_xyzw
  017 buffer_load_dwordx4  gfx90a gfx942
MUBUF | <- vdata:b32 vaddr:address srsrc:b128 soffset:b32
  004 buffer_store_format_x
  00c buffer_store_format_d16_x
  00d buffer_store_format_d16_xy
  018 buffer_store_byte
  019 buffer_store_byte_d16_hi
  01a buffer_store_short
  01b buffer_store_short_d16_hi
  01c buffer_store_dword
  027 buffer_store_format_d16_hi_x
MUBUF | <- vdata:b64 vaddr:address srsrc:b128 soffset:b32
  005 buffer_store_format_xy
  00e buffer_store_format_d16_xyz
  00f buffer_store_format_d16_xyzw
  01d buffer_store_dwordx2
MUBUF | <- vdata:b96 vaddr:address srsrc:b128 soffset:b32
  006 buffer_store_format_xyz
  01e buffer_store_dwordx3
MUBUF | <- vdata:b128 vaddr:address srsrc:b128 soffset:b32
  007 buffer_store_format_xyzw
  01f buffer_store_dwordx4
MUBUF | vdata:b32 <- vaddr:address srsrc:b128 soffset:b32
  008 buffer_load_format_d16_x
  009 buffer_load_format_d16_xy
  020 buffer_load_ubyte_d16
  021 buffer_load_ubyte_d16_hi
  022 buffer_load_sbyte_d16
  023 buffer_load_sbyte_d16_hi
  024 buffer_load_short_d16
  025 buffer_load_short_d16_hi
  026 buffer_load_format_d16_hi_x
MUBUF lds | vdata:b96 <- vaddr:address srsrc:b128 soffset:b32
  016 buffer_load_dwordx3  gfx950
MUBUF lds | vdata:b128 <- vaddr:address srsrc:b128 soffset:b32
  017 buffer_load_dwordx4  gfx950
MUBUF | <-
  028 buffer_wbl2
  029 buffer_inv  gfx942 gfx950
  029 buffer_invl2  gfx90a
  03e buffer_wbinvl1  gfx90a
  03f buffer_wbinvl1_vol  gfx90a
MUBUF returns | vdata:b32 <- vdata:b32 vaddr:address srsrc:b128 soffset:b32
  040 buffer_atomic_swap
  042 buffer_atomic_add
  043 buffer_atomic_sub
  044 buffer_atomic_smin
  045 buffer_atomic_umin
  046 buffer_atomic_smax
  047 buffer_atomic_umax
  048 buffer_atomic_and
  049 buffer_atomic_or
  04a buffer_atomic_xor
  04b buffer_atomic_inc
  04c buffer_atomic_dec
  04d buffer_atomic_add_f32
  04e buffer_atomic_pk_add_f16
  052 buffer_atomic_pk_add_bf16  gfx950
MUBUF returns | vdata:b32 <- vdata:b64 vaddr:address srsrc:b128 soffset:b32
  041 buffer_atomic_cmpswap
MUBUF returns | vdata:b64 <- vdata:b64 vaddr:address srsrc:b128 soffset:b32
  04f buffer_atomic_add_f64
  050 buffer_atomic_min_f64
  051 buffer_atomic_max_f64
  060 buffer_atomic_swap_x2
  062 buffer_atomic_add_x2
  063 buffer_atomic_sub_x2
  064 buffer_atomic_smin_x2
  065 buffer_atomic_umin_x2
  066 buffer_atomic_smax_x2
  067 buffer_atomic_umax_x2
  068 buffer_atomic_and_x2
  069 buffer_atomic_or_x2
  06a buffer_atomic_xor_x2
  06b buffer_atomic_inc_x2
  06c buffer_atomic_dec_x2
MUBUF returns | vdata:b64 <- vdata:b128 vaddr:address srsrc:b128 soffset:b32
  061 buffer_atomic_cmpswap_x2
MTBUF | vdata:b32 <- vaddr:address srsrc:b128 soffset:b32
  000 tbuffer_load_format_x
  008 tbuffer_load_format_d16_x
  009 tbuffer_load_format_d16_xy
MTBUF | vdata:b64 <- vaddr:address srsrc:b128 soffset:b32
  001 tbuffer_load_format_xy
  00a tbuffer_load_format_d16_xyz
  00b tbuffer_load_format_d16_xyzw
MTBUF | vdata:b96 <- vaddr:address srsrc:b128 soffset:b32
  002 tbuffer_load_format_xyz
MTBUF | vdata:b128 <- vaddr:address srsrc:b128 soffset:b32
  003 tbuffer_load_format_xyzw
MTBUF | <- vdata:b32 vaddr:address srsrc:b128 soffset:b32
  004 tbuffer_store_format_x
  00c tbuffer_store_format_d16_x
  00d tbuffer_store_format_d16_xy
MTBUF | <- vdata:b64 vaddr:address srsrc:b128 soffset:b32
  005 tbuffer_store_format_xy
  00e tbuffer_store_format_d16_xyz
  00f tbuffer_store_format_d16_xyzw
MTBUF | <- vdata:b96 vaddr:address srsrc:b128 soffset:b32
  006 tbuffer_store_format_xyz
MTBUF | <- vdata:b128 vaddr:address srsrc:b128 soffset:b32
  007 tbuffer_store_format_xyzw
"""
