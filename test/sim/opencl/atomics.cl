// Atomic updates in LDS and in global memory, with and without the old value, and by compare and swap.
#include "common.h"

__kernel ATTRIBUTES(256) void histogram(__global const uint *x, __global uint *counts, __global uint *old, int n) {
  __local uint local_counts[64];
  if (lane() < 64) local_counts[lane()] = 0;
  barrier_local();
  for (int i = lane(); i < n; i += 256)
    __scoped_atomic_fetch_add(&local_counts[x[group() * n + i] % 64], 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
  barrier_local();
  if (lane() < 64)
    old[group() * 64 + lane()] =
        __scoped_atomic_fetch_add(&counts[lane()], local_counts[lane()], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

__kernel ATTRIBUTES(64) void updates(__global const uint *x, __global uint *results, __global ulong *wide, __global float *sum) {
  const uint value = x[group() * 64 + lane()];
  __scoped_atomic_fetch_max(&results[0], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_min(&results[1], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_xor(&results[2], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_or(&results[3], value & 0xF0F0u, __ATOMIC_SEQ_CST, __MEMORY_SCOPE_SYSTEM);
  __scoped_atomic_fetch_add(&wide[0], (ulong)value << 20, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE);
  uint seen = __scoped_atomic_load_n(&results[4], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  while (!__scoped_atomic_compare_exchange_n(&results[4], &seen, (uint)((seen + (ulong)value * value) % 1000003), 0,
                                             __ATOMIC_RELAXED, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE));
  __scoped_atomic_fetch_add(sum, (float)(value % 8), __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
