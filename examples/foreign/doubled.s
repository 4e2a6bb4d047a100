; x[i] += x[i] for 64 numbers of f32, by hand, for gfx942. docs/checking_your_kernels.md leaves the second wait out.
  .text
  .globl doubled
  .p2align 8
  .type doubled,@function
doubled:
  s_load_dwordx2 s[2:3], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v1, v0, s[2:3]
  s_waitcnt vmcnt(0)
  v_add_f32_e32 v1, v1, v1
  global_store_dword v0, v1, s[2:3]
  s_endpgm
.Lend:
  .size doubled, .Lend-doubled

  .rodata
  .p2align 6
  .amdhsa_kernel doubled
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr 2
    .amdhsa_next_free_sgpr 4
    .amdhsa_accum_offset 4
    .amdhsa_kernarg_size 8
  .end_amdhsa_kernel

  .amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.kernels:
  - .name: doubled
    .symbol: doubled.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 10
    .vgpr_count: 2
    .max_flat_workgroup_size: 64
    .args:
      - {.name: x, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
  .end_amdgpu_metadata
