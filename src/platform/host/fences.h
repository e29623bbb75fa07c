// Fences between a thread's stores and its later loads (Dekker's pattern: each side stores, fences, and loads what the
// other side stores; at least one side sees the other's store).
//
// A full fence makes its caller wait until all its stores have left the core, which costs as much as a short message.
// If one side acts millions of times and the other rarely, the rare side can fence for both. Its heavy fence executes a
// fence on every core that runs a registered process (membarrier, global and expedited), and the light fence of the
// frequent side only restrains the compiler. Between processes this works if all of them have registered
// (let_others_fence).
#pragma once

#include <atomic>

#if defined(__SANITIZE_THREAD__)
#define SCCL_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SCCL_THREAD_SANITIZER 1
#endif
#endif

namespace sccl::host {

// Stores before the fence are visible to others before loads after the fence are made.
void full_fence();

// What was loaded before the fence is not older than what was loaded after it (a seqlock's reader: the data, the fence,
// the sequence again).
inline void acquire_fence() {
#if defined(SCCL_THREAD_SANITIZER)
  full_fence();  // -fsanitize=thread refuses std::atomic_thread_fence
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

// Registers this process, so that heavy fences of all processes reach it. False if the system cannot. Called when a
// communicator is made: a forked child has to register again.
bool let_others_fence();

// As full_fence, for the caller and for every registered process.
void heavy_fence();

// For the frequent side. `rare_side_is_heavy`: the other side executes a heavy fence, and this process is registered.
inline void light_fence(bool rare_side_is_heavy) {
  if (rare_side_is_heavy)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    full_fence();
}

namespace detail {
extern std::atomic<bool> reached_by_heavy_fences;
}

// The same if both sides belong to this process: heavy fences reach the process from its first communicator on.
inline void light_fence_within_process() {
  light_fence(detail::reached_by_heavy_fences.load(std::memory_order_relaxed));
}

}  // namespace sccl::host
