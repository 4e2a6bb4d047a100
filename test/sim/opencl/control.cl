// Control flow that differs between lanes: loops of different lengths, switches, early exits, nested conditions.
#include "common.h"

__kernel ATTRIBUTES(64) void collatz(__global const uint *x, __global uint *steps) {
  const uint i = group() * 64 + lane();
  uint n = x[i], count = 0;
  while (n != 1) {
    n = n & 1 ? 3 * n + 1 : n / 2;
    ++count;
    if (count == 500) break;
  }
  steps[i] = count;
}

__kernel ATTRIBUTES(64) void choices(__global const uint *x, __global uint *y) {
  const uint i = group() * 64 + lane();
  uint value = x[i], result;
  switch (value % 11) {
    case 0: result = value + 1; break;
    case 1: result = value * 3; break;
    case 2: result = ~value;  // falls through
    case 3: result = value ^ 0x55; break;
    case 4: return;
    case 5: for (result = 0; value; value &= value - 1) ++result; break;
    case 6: result = value >> (value & 7); break;
    case 7: result = value > 1000 ? value - 1000 : value / 3; break;
    case 8: result = i; break;
    default: result = value / (i + 1) + value % (i + 3);
  }
  y[i] = result;
}
