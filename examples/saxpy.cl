// y += factor * x: a kernel that knows nothing of ckmlir. Made into saxpy_gfx942.hsaco by
// clang -x cl -cl-std=CL2.0 --target=amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -O2 saxpy.cl -o saxpy_gfx942.hsaco
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void saxpy(__global const float *x, __global float *y, float factor, int count) {
  int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  if (i < count) y[i] += factor * x[i];
}
