// ncclCommSuspend and ncclCommResume: memory that holds no state goes back to the system in between.
#pragma once

#include <cstdint>

namespace sccl::runtime {

class Communicator;

// One rank's own memory, without its peers' memory.
struct MemoryUse {
  std::uint64_t suspendable_bytes = 0;
  std::uint64_t persistent_bytes = 0;
  bool suspended = false;
};

// All ranks must call suspend(), and later all must call resume(). The caller has called Lifecycle::check_usable before
// suspend(), and check_suspended before resume().
void suspend(Communicator& communicator);
void resume(Communicator& communicator);

// Throws before init is over.
MemoryUse memory_use(Communicator& communicator);

}  // namespace sccl::runtime
