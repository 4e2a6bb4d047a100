// C = A B^T in f16 with f32 accumulation: one wave makes 32x32 of C by matrix instructions, operands through LDS.
#include "common.h"

__kernel ATTRIBUTES(64) void gemm(__global const half4 *a, __global const half4 *b, __global float *c, int n, int k) {
  __local half4 tile_a[32][2], tile_b[32][2];  // 32 rows of 8 elements
  const uint row = lane() % 32, part = lane() / 32;
  const uint tiles = n / 32, tile_row = group() / tiles, tile_column = group() % tiles;
  float16 sum = 0;
  for (int step = 0; step < k; step += 8) {
    tile_a[row][part] = a[((tile_row * 32 + row) * k + step) / 4 + part];
    tile_b[row][part] = b[((tile_column * 32 + row) * k + step) / 4 + part];
    barrier_local();
    sum = __builtin_amdgcn_mfma_f32_32x32x8f16(tile_a[row][part], tile_b[row][part], sum, 0, 0, 0);
    barrier_local();
  }
  for (int i = 0; i < 16; ++i)
    c[(tile_row * 32 + i % 4 + 8 * (i / 4) + 4 * part) * n + tile_column * 32 + row] = sum[i];
}
