// What differs between CUDA and HIP: qualifiers, indices, barriers, and loads and stores that other devices observe.
//
// The first header of every kernel. A host that plays a device in tests defines SCCL_GPU_TARGET_GIVEN and provides its
// own version of everything here.
#pragma once

#if !defined(SCCL_GPU_TARGET_GIVEN)

#if defined(__CUDACC_RTC__) || defined(__CUDACC__) && !defined(__HIP__)
#define SCCL_GPU_CUDA 1
#define SCCL_KERNEL __global__
#define SCCL_SHARED __shared__
#define SCCL_NOINLINE __noinline__
#define SCCL_MOST_THREADS(count) __launch_bounds__(count, 1)
#else
#define SCCL_GPU_CUDA 0
#if !defined(__global__)
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#endif
#define SCCL_KERNEL __global__
#define SCCL_SHARED __shared__
#define SCCL_NOINLINE __attribute__((noinline))
#define SCCL_MOST_THREADS(count) __attribute__((amdgpu_flat_work_group_size(1, count)))
// Code that is included after this, the interpreter too, carries no qualifiers.
#pragma clang force_cuda_host_device begin
#endif

// One variable for each block, in shared memory.
#define SCCL_BLOCK_VARIABLE(Type, name) \
  static SCCL_SHARED Type name##_place; \
  inline Type& name() { return name##_place; }

#include "kernels/device/lines.h"

namespace sccl::device::gpu {

struct alignas(16) Vector {
  u32 words[4];
};

// A wait looks for what ends the kernel after so many polls in vain.
inline constexpr u32 kPollsPerLook = 64;        // reads of this device's memory
inline constexpr u32 kPollsPerHostLook = 1024;  // reads over the host's bus

#if SCCL_GPU_CUDA

inline u32 thread_index() { return threadIdx.x; }
inline u32 thread_count() { return blockDim.x; }
inline u32 block_index() { return blockIdx.x; }
inline void block_sync() { __syncthreads(); }
// Hides a value from the optimiser, which would compute its products before an enclosing loop, where they take
// registers.
inline u32 unhoisted(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}
inline bool block_all(bool mine) { return __syncthreads_and(mine) != 0; }

// Peers may be other devices or the host, hence system scope.
inline u64 load_acquire_system(const u64* from) {
  u64 value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
inline u64 load_relaxed_system(const u64* from) {
  u64 value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
inline void store_release_system(u64* to, u64 value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
inline void store_relaxed_system(u64* to, u64 value) {
  asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
inline void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
inline void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
// Between a store and a load: if two threads each store a word, fence and load the other's word, at least one of them
// sees the other's store.
inline void fence_system_total() { asm volatile("fence.sc.sys;" ::: "memory"); }
// Among the blocks of one kernel.
inline u64 fetch_add_device(u64* at, u64 value) {
  u64 before;
  asm volatile("atom.add.acq_rel.gpu.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(value) : "memory");
  return before;
}
// Returns the old value; stores `wanted` if the old value was `expected`.
inline u64 compare_swap_device(u64* at, u64 expected, u64 wanted) {
  u64 before;
  asm volatile("atom.acq_rel.gpu.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(at), "l"(expected), "l"(wanted)
               : "memory");
  return before;
}
inline void pause() {}  // a poll takes long enough

// A line is one transaction when all threads that share it execute one instruction together.
inline u32 warp_lanes() { return 32; }
inline bool warp_all(bool mine) { return __all_sync(0xffffffffu, mine) != 0; }
inline LinePart load_line_part(const u64* from, bool active) {
  LinePart part{{0, 0}};
  __syncwarp();
  if (active)
    asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];"
                 : "=l"(part.words[0]), "=l"(part.words[1])
                 : "l"(from)
                 : "memory");
  return part;
}
inline void store_line_part(u64* to, const LinePart& part, bool active) {
  __syncwarp();
  if (active)
    asm volatile("st.volatile.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(part.words[0]), "l"(part.words[1]) : "memory");
}

#else

inline u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }
inline u32 thread_count() { return __builtin_amdgcn_workgroup_size_x(); }
inline u32 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
inline u32 unhoisted(u32 value) { return value; }
inline void block_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// Functions for host and device cannot have shared variables.
#pragma clang force_cuda_host_device end
__device__ inline bool block_all(bool mine) {
  SCCL_SHARED u32 any_not;
  if (thread_index() == 0) any_not = 0;
  block_sync();
  if (!mine) any_not = 1;
  block_sync();
  const bool all = any_not == 0;
  block_sync();
  return all;
}
#pragma clang force_cuda_host_device begin

// Accesses without a scope have system scope.
inline u64 load_acquire_system(const u64* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
inline u64 load_relaxed_system(const u64* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
inline void store_release_system(u64* to, u64 value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
inline void store_relaxed_system(u64* to, u64 value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }
inline void fence_system() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
inline void fence_system_total() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void fence_device() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }
inline u64 fetch_add_device(u64* at, u64 value) { return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL); }
inline u64 compare_swap_device(u64* at, u64 expected, u64 wanted) {
  __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
inline void pause() { __builtin_amdgcn_s_sleep(1); }

#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define SCCL_GPU_WAVE 32
#else
#define SCCL_GPU_WAVE 64
#endif
// Threads of a wave run in lockstep. Volatile accesses bypass the caches of this device, in one instruction of 16 bytes
// per thread.
typedef u64 VolatilePart __attribute__((ext_vector_type(2)));
inline u32 warp_lanes() { return SCCL_GPU_WAVE; }
inline bool warp_all(bool mine) { return __builtin_amdgcn_uicmp(static_cast<u32>(mine), 0u, 32) == 0; }  // 32: equal
inline LinePart load_line_part(const u64* from, bool active) {
  LinePart part{{0, 0}};
  if (active) {
    const VolatilePart loaded = *reinterpret_cast<const volatile VolatilePart*>(from);
    part.words[0] = loaded.x;
    part.words[1] = loaded.y;
  }
  return part;
}
inline void store_line_part(u64* to, const LinePart& part, bool active) {
  if (active) *reinterpret_cast<volatile VolatilePart*>(to) = VolatilePart{part.words[0], part.words[1]};
}

#endif

// Words of flagged messages. A word depends on what its sender read to make it, and this dependency is all the order
// that the words need.
inline u64 load_word_system(const u64* from) { return load_relaxed_system(from); }
inline void store_word_system(u64* to, u64 value) { store_relaxed_system(to, value); }

}  // namespace sccl::device::gpu

#endif
