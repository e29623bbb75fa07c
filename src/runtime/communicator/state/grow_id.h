// The id with which new ranks join a communicator that grows.
#pragma once

#include <atomic>

#include "base/error.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/unique_id.h"

namespace sccl::runtime {

// For any thread.
class GrowId {
 public:
  // For `rank` of the communicator that grows. Throws invalid_usage while the previous id is unused.
  UniqueId create(Rank rank) {
    if (pending_.exchange(true, std::memory_order_relaxed))
      fail(ErrorCode::invalid_usage, "rank {} made an id that no ncclCommGrow has used yet: use it first", rank);
    try {
      return create_private_id();
    } catch (...) {
      was_used();
      throw;
    }
  }

  void was_used() { pending_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> pending_{false};  // orders nothing else
};

}  // namespace sccl::runtime
