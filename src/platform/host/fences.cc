#include "platform/host/fences.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sccl::host {

// Set before the first communicator whose calls rely on it.
std::atomic<bool> detail::reached_by_heavy_fences{false};

void full_fence() {
#if defined(SCCL_THREAD_SANITIZER)
  // ThreadSanitizer does not know fences. A missed bell then costs only the time limit of one sleep.
  static thread_local std::atomic<int> line{0};
  line.exchange(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

bool let_others_fence() {
  const long known = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const bool can = known > 0 && (known & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
                   ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  if (can) detail::reached_by_heavy_fences.store(true, std::memory_order_relaxed);
  return can;
}

void heavy_fence() {
  full_fence();
  // Cannot fail where registration (let_others_fence) succeeded.
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace sccl::host
