// Data movement: a transpose through LDS, a private array indexed at run time (scratch), copies of bytes.
#include "common.h"

__kernel ATTRIBUTES(256) void transpose(__global const uint *x, __global uint *y, int rows, int columns) {
  __local uint tile[16][17];
  const uint i = lane() / 16, j = lane() % 16, across = (columns + 15) / 16;
  const int row = group() / across * 16, column = group() % across * 16;
  if (row + i < rows && column + j < columns) tile[i][j] = x[(row + i) * columns + column + j];
  barrier_local();
  if (column + i < columns && row + j < rows) y[(column + i) * rows + row + j] = tile[j][i];
}

// Reverses 16 numbers a lane by way of a private array with run-time indices, and adds what a call returns.
static __attribute__((noinline)) uint mixed(uint *values, uint at) {
  values[at % 16] ^= at;
  return values[(at + 5) % 16];
}

__kernel ATTRIBUTES(64) void private_array(__global const uint *x, __global uint *y, uint shift) {
  uint values[16];
  const uint first = (group() * 64 + lane()) * 16;
  for (uint i = 0; i < 16; ++i) values[i] = x[first + i];
  uint extra = mixed(values, lane() + shift);
  for (uint i = 0; i < 16; ++i) y[first + i] = values[(15 - i + shift) % 16] + extra;
}

__kernel ATTRIBUTES(64) void bytes(__global const uchar *x, __global uchar *y, __global const short *s, __global short *t) {
  const uint i = group() * 64 + lane();
  y[i] = x[i] * 3 + 1;
  t[i] = (short)(s[i] >> 3);
}
