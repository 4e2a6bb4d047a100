"""Opcodes of memory instructions with addresses: FLAT, GLOBAL, SCRATCH.

`ckmlir.sim.decode.opcodes` describes the notation. Numbers, names and operand widths are those of LLVM 22
for the three chips, found by disassembling every opcode number of every encoding.
"""

TABLE = """
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
"""
