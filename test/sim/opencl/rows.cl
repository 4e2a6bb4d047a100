// Row operations over waves: softmax, and a sum by a tree in LDS with four waves.
#include "common.h"

static float exponential(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504f); }

static float across(__local float *shared, float mine, int maximum) {
  shared[lane()] = mine;
  barrier_local();
  for (uint half_width = 128; half_width > 0; half_width /= 2) {
    if (lane() < half_width) {
      float other = shared[lane() + half_width];
      shared[lane()] = maximum ? __builtin_fmaxf(shared[lane()], other) : shared[lane()] + other;
    }
    barrier_local();
  }
  float result = shared[0];
  barrier_local();
  return result;
}

__kernel ATTRIBUTES(256) void softmax(__global const float *x, __global float *y, int columns) {
  __local float shared[256];
  x += (long)group() * columns;
  y += (long)group() * columns;
  float largest = -__builtin_inff();
  for (int i = lane(); i < columns; i += 256) largest = __builtin_fmaxf(largest, x[i]);
  largest = across(shared, largest, 1);
  float sum = 0;
  for (int i = lane(); i < columns; i += 256) sum += exponential(x[i] - largest);
  sum = across(shared, sum, 0);
  for (int i = lane(); i < columns; i += 256) y[i] = exponential(x[i] - largest) / sum;
}

__kernel ATTRIBUTES(256) void row_sum(__global const float *x, __global float *y, int columns) {
  __local float shared[256];
  float sum = 0;
  for (int i = lane(); i < columns; i += 256) sum += x[(long)group() * columns + i];
  sum = across(shared, sum, 0);
  if (lane() == 0) y[group()] = sum;
}
