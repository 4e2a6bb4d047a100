// What a compiler expands: divisions, roots, 64-bit integers, double precision, conversions.
#include "common.h"
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel ATTRIBUTES(64) void floats(__global const float *x, __global const float *y, __global float *q, __global float *r) {
  const uint i = group() * 64 + lane();
  q[i] = x[i] / y[i];
  r[i] = __builtin_sqrtf(__builtin_fabsf(x[i])) + __builtin_floorf(y[i]) * 0.5f;
}

__kernel ATTRIBUTES(64) void doubles(__global const double *x, __global const double *y, __global double *q, __global double *r) {
  const uint i = group() * 64 + lane();
  q[i] = x[i] / y[i];
  r[i] = __builtin_sqrt(__builtin_fabs(x[i])) + __builtin_trunc(y[i]);
}

__kernel ATTRIBUTES(64) void integers(__global const long *x, __global const long *y, __global long *q, __global long *r) {
  const uint i = group() * 64 + lane();
  q[i] = x[i] / y[i] + (long)((ulong)x[i] % (ulong)y[i]);
  r[i] = (x[i] * y[i]) ^ (x[i] >> (y[i] & 63)) ^ (long)((ulong)y[i] << (x[i] & 63)) ^ (long)__builtin_popcountl(x[i])
         ^ ((int)x[i] / ((int)y[i] | 1)) ^ (long)((uint)x[i] % ((uint)y[i] | 1)) ^ (long)__builtin_clzl(x[i] | 1);
}

__kernel ATTRIBUTES(64) void conversions(__global const double *x, __global long *whole, __global float *single, __global half *narrow) {
  const uint i = group() * 64 + lane();
  whole[i] = (long)x[i];
  single[i] = (float)x[i] + (float)(int)x[i] + (float)(ulong)(__builtin_fabs(x[i]));
  narrow[i] = (half)(float)x[i];
}
