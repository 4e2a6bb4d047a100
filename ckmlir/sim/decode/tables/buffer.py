"""Opcodes of buffer instructions: MUBUF, MTBUF.

`ckmlir.sim.decode.opcodes` describes the notation. Numbers, names and operand widths are those of LLVM 22
for the three chips, found by disassembling every opcode number of every encoding.
"""

TABLE = """
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
MUBUF from_lds | <- srsrc:b128 soffset:b32
  03d buffer_store_lds_dword  gfx90a
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
