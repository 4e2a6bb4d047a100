// Kernels that keep many things in flight: the static checks have to find nothing wrong with what a compiler makes.
#include "common.h"

typedef float float4_ __attribute__((ext_vector_type(4)));
typedef float float16_ __attribute__((ext_vector_type(16)));
typedef half half4_ __attribute__((ext_vector_type(4)));
typedef double double4_ __attribute__((ext_vector_type(4)));

__attribute__((noinline)) float series(float x, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++)
    sum += x > i ? x / (i + 1.5f) : -__builtin_sqrtf(x + i);
  return sum;
}

__attribute__((noinline)) int nested(int n) { return n * (int)series(n, n - 1); }

kernel void calls(global float *a, global float *b, int n) {
  b[lane()] = series(a[lane()], n) + nested(n & 7);
}

kernel void reduce(global float *a, global float *out, int n) {
  local float part[256];
  float x = 0;
  for (int i = lane(); i < n; i += 256)
    x += a[i];
  part[lane()] = x;
  barrier_local();
  for (int k = 128; k > 0; k >>= 1) {
    if (lane() < k)
      part[lane()] += part[lane() + k];
    barrier_local();
  }
  if (lane() == 0)
    out[0] = part[0];
}

kernel void matrices(global half4_ *a, global half4_ *b, global float16_ *c, int k) {
  local half4_ sa[64], sb[64];
  float16_ sum = 0;
  for (int i = 0; i < k; i++) {
    sa[lane()] = a[i * 64 + lane()];
    sb[lane()] = b[i * 64 + lane()];
    barrier_local();
    sum = __builtin_amdgcn_mfma_f32_32x32x8f16(sa[lane() ^ 1], sb[lane()], sum, 0, 0, 0);
    barrier_local();
  }
  c[lane()] = sum;
}

kernel void chains(global half4_ *a, global half4_ *b, global float4_ *c, int k) {
  float4_ sum = 0;
  for (int i = 0; i < k; i++)
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(a[i * 64 + lane()], b[i * 64 + lane()], sum, 0, 0, 0);
  float4_ other = __builtin_amdgcn_mfma_f32_4x4x4f16(a[lane()], b[lane()], sum, 0, 0, 0);
  c[lane()] = sum * 2.0f + other;
  c[lane() + 64] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[lane()], b[lane()], other, 0, 0, 0);
}

kernel void doubles(global double *a, global double *b, global double4_ *c, int k) {
  double4_ sum = 0;
  for (int i = 0; i < k; i++)
    sum = __builtin_amdgcn_mfma_f64_16x16x4f64(a[i * 64 + lane()], b[i * 64 + lane()], sum, 0, 0, 0);
  double small = __builtin_amdgcn_mfma_f64_4x4x4f64(a[lane()], b[lane()], sum.x, 0, 0, 0);
  c[lane()] = sum * __builtin_fma(a[lane()], b[lane()], small);
}

kernel void singles(global float *a, global float *b, global float16_ *c, int k) {
  float16_ sum = 0;
  for (int i = 0; i < k; i++)
    sum = __builtin_amdgcn_mfma_f32_32x32x2f32(a[i * 64 + lane()], b[i * 64 + lane()], sum, 0, 0, 0);
  c[lane()] = sum;
  float4_ small = __builtin_amdgcn_mfma_f32_16x16x4f32(a[lane()], b[lane()], (float4_)0, 0, 0, 0);
  sum.x = small.x + sum.y;
  c[lane() + 64] = __builtin_amdgcn_mfma_f32_32x32x2f32(small.y, b[lane()], sum, 0, 0, 0);
}

kernel void pointers(global int *a, local int *l, int c, global int *out) {
  int own[4] = {1, 2, 3, c};
  int *p = c > 5 ? (int *)a : c > 2 ? (int *)l : (int *)own;
  p[lane() & 3] += out[lane()];
  out[lane()] = p[c & 3] + own[1];
}

kernel void indexed(global float *a, int n) {
  float v[16];
  for (int i = 0; i < 16; i++)
    v[i] = a[i * 64 + lane()];
  for (int i = 0; i < n; i++)
    v[(i * n) & 15] += v[i & 15];
  float sum = 0;
  for (int i = 0; i < 16; i++)
    sum += v[i];
  a[lane()] = sum;
}

kernel void spills(global float *a, int n) {
  float v[160];
  for (int i = 0; i < 160; i++)
    v[i] = a[i * 64 + lane()];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < 160; i++)
      v[i] = v[i] * v[(i * 7 + 3) % 160] + k;
  for (int i = 0; i < 160; i++)
    a[i * 64 + lane()] = v[i];
}

kernel void exchanges(global int *a) {
  int x = a[lane()];
  x += __builtin_amdgcn_ds_bpermute(((int)lane() ^ 5) << 2, x);
  x += __builtin_amdgcn_mov_dpp(x, 0x111, 15, 15, 1);
  x += __builtin_amdgcn_update_dpp(x, x, 0x142, 15, 15, 0);
  x += __builtin_amdgcn_readlane(x, __builtin_amdgcn_readfirstlane(a[64]) & 63);
  x += __builtin_amdgcn_ds_swizzle(x, 0x401f);
  a[lane()] = x ^ __builtin_amdgcn_mbcnt_hi(-1, __builtin_amdgcn_mbcnt_lo(-1, 0));
}

kernel void divisions(global float *a, global float *b) {
  float x = a[lane()], y = b[lane()];
  while (x > y) {
    if ((int)x & 1) {
      x = x / y;
      if (x < 0)
        break;
    } else
      x -= 1;
    y = __builtin_sinf(y) + __builtin_log2f(x);
  }
  a[lane()] = x;
}

kernel void modes(global float *a) {
  __builtin_amdgcn_s_setreg(1 | 3 << 11, 5);
  float x = a[lane()] * 3;
  __builtin_amdgcn_s_setreg(1 | 3 << 11, 0);
  a[lane()] = x + __builtin_amdgcn_s_getreg(1 | 31 << 11);
}

kernel void wide(global double4_ *a, global double4_ *b, int n) {
  for (int k = 0; k < n; k++) {
    double4_ x = a[lane() + k * 64];
    b[lane() + k * 64] = x + 1.0;
    b[lane() + k * 64 + 7] = x * x;
  }
}
