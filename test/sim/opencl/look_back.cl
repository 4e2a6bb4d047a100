// Running sums of a vector, in one pass: each workgroup waits for the flag of the one before, whose sum it adds.
#include "common.h"

#ifndef SCOPE
#define SCOPE __MEMORY_SCOPE_DEVICE
#define WAITS 1
#define PAUSE __builtin_amdgcn_s_sleep(1)
#endif

__attribute__((reqd_work_group_size(256, 1, 1))) kernel void look_back(
    global const int *x, global int *y, global int *flags, global int *sums) {
  local int parts[256], before;
  int group = __builtin_amdgcn_workgroup_id_x(), thread = __builtin_amdgcn_workitem_id_x();
  parts[thread] = x[256 * group + thread];
  barrier_local();
  for (int step = 1; step < 256; step *= 2) {
    int other = thread >= step ? parts[thread - step] : 0;
    barrier_local();
    parts[thread] += other;
    barrier_local();
  }
  if (thread == 0) {
    int sum = 0;
    if (group > 0) {
      while (WAITS && __scoped_atomic_load_n(&flags[group - 1], __ATOMIC_ACQUIRE, SCOPE) == 0)
        PAUSE;
      sum = sums[group - 1];
    }
    sums[group] = sum + parts[255];
    __scoped_atomic_store_n(&flags[group], 1, __ATOMIC_RELEASE, SCOPE);
    before = sum;
  }
  barrier_local();
  y[256 * group + thread] = parts[thread] + before;
}
