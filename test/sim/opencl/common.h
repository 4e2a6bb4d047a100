// What kernels need of OpenCL without its headers and without device libraries: ids, barriers.

#define ATTRIBUTES(size) __attribute__((reqd_work_group_size(size, 1, 1)))

static inline uint lane(void) { return __builtin_amdgcn_workitem_id_x(); }
static inline uint group(void) { return __builtin_amdgcn_workgroup_id_x(); }

static inline void barrier_local(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
