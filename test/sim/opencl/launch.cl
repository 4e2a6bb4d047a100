// What a kernel can ask about its launch: ids and sizes in three dimensions, dynamic LDS, many arguments.
#include "common.h"

__kernel void geometry(__global uint *seen) {
  const uint x = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
  const uint y = __builtin_amdgcn_workgroup_id_y() * __builtin_amdgcn_workgroup_size_y() + __builtin_amdgcn_workitem_id_y();
  const uint z = __builtin_amdgcn_workgroup_id_z() * __builtin_amdgcn_workgroup_size_z() + __builtin_amdgcn_workitem_id_z();
  const uint width = __builtin_amdgcn_grid_size_x(), height = __builtin_amdgcn_grid_size_y();
  seen[x + width * (y + height * z)] = x + 100 * y + 10000 * z + 1000000 * __builtin_amdgcn_workgroup_size_y();
}

__kernel __attribute__((amdgpu_flat_work_group_size(1, 1024))) void dynamic_local(__global const uint *x, __global uint *y, __local uint *shared, uint size) {
  for (uint i = lane(); i < size; i += __builtin_amdgcn_workgroup_size_x()) shared[i] = x[i];
  barrier_local();
  for (uint i = lane(); i < size; i += __builtin_amdgcn_workgroup_size_x()) y[i] = shared[size - 1 - i];
}

__kernel ATTRIBUTES(64) void many(__global ulong *out, uchar a, short b, uint c, ulong d, float e, double f, uint g, uint h) {
  out[lane()] = a + b + c + d + (ulong)e + (ulong)f + g * h + lane();
}

// Addresses of memory of three kinds through generic pointers: flat accesses, told apart by the apertures.
static __attribute__((noinline)) uint through(uint *any, uint value) {
  uint old = *any;
  *any = value;
  return old;
}

__kernel ATTRIBUTES(64) void flat_pointers(__global uint *x, __global uint *y) {
  __local uint shared[64];
  uint own[2] = {lane(), lane() * 2};
  shared[lane()] = lane() + 7;
  y[lane()] = through((uint *)&x[lane()], 1) + through((uint *)&shared[lane()], 2) * 3 + through(own + (lane() & 1), 3) * 5
              + shared[lane()] + own[0] + own[1];
}
