// Fences between one's own stores and later loads (Dekker's pattern: each side stores, fences, and looks at what the
// other one stored; at least one of them sees the other).
//
// A full fence makes its caller wait until all it wrote has left the core, which costs as much as a short message.
// Where one side acts millions of times and the other hardly ever, the rare side can fence for both: its heavy fence
// makes one on every core that runs a process which has asked for it (membarrier, global and expedited), and the
// frequent side's light fence is the compiler's only. Among processes this works if all have asked (let_others_fence).
#pragma once

#include <atomic>

namespace sccl::host {

// Stores before it are visible to others before loads after it are made.
void full_fence();

// Makes this process one that heavy fences reach, wherever they are made. False where the system cannot. Called when a
// communicator is made: a forked child has to ask again.
bool let_others_fence();

// As full_fence, for the caller and for every process that has asked.
void heavy_fence();

// The frequent side's. `rare_side_is_heavy`: whoever it pairs with makes a heavy fence, and this process has asked.
inline void light_fence(bool rare_side_is_heavy) {
  if (rare_side_is_heavy)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    full_fence();
}

namespace detail {
extern std::atomic<bool> reached_by_heavy_fences;
}

// The same where both sides are of this process: heavy fences reach it from its first communicator on.
inline void light_fence_within_process() {
  light_fence(detail::reached_by_heavy_fences.load(std::memory_order_relaxed));
}

}  // namespace sccl::host
