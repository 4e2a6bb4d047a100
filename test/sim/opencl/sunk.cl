// What a branch alone needs of LDS, read between two barriers.
#include "common.h"

__kernel ATTRIBUTES(256) void sunk(__global const uint *x, __global uint *y, int unlikely) {
  __local uint shared[256];
  shared[lane()] = x[lane()];
  barrier_local();
  uint found = shared[(lane() * 5 + 74) & 255];
  barrier_local();
  if (unlikely) found = x[unlikely];
  shared[lane()] = found;
  barrier_local();
  y[lane()] = shared[(lane() + 210) & 255] ^ found;
}
