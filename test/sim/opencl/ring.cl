// Three LDS buffers in turn, filled by copies that need no registers: each step waits for its own copy while the next
// one flies on.
#include "common.h"

#define WAIT_VMCNT_1_LGKMCNT_0 0x0071

static void copy(local uint *slot, __amdgpu_buffer_rsrc_t from, uint offset) {
  __builtin_amdgcn_raw_ptr_buffer_load_lds(from, slot + (lane() & ~63u), 4, lane() * 4, offset, 0, 0);
}

static uint step(local uint *read, local uint *fill, __amdgpu_buffer_rsrc_t from, uint offset) {
  __builtin_amdgcn_s_waitcnt(WAIT_VMCNT_1_LGKMCNT_0);
  __builtin_amdgcn_s_barrier();
  copy(fill, from, offset);
  return read[lane() ^ 64];
}

kernel ATTRIBUTES(256) void ring(global const uint *x, global uint *out, uint steps) {
  local uint a[256], b[256], c[256];
  uint sum = 0;
  __amdgpu_buffer_rsrc_t from = __builtin_amdgcn_make_buffer_rsrc((void *)x, 0, 0x7fffffff, 0x27000);
  copy(a, from, 0);
  copy(b, from, 1024);
  uint offset = 2048;
  for (uint i = 0; i < steps; i++) {
    sum += step(a, c, from, offset);
    sum = sum * 3 + step(b, a, from, offset + 1024);
    sum = sum * 3 + step(c, b, from, offset + 2048);
    offset += 3072;
  }
  out[lane()] = sum;
}
