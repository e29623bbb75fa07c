// Why running work of a communicator must end.
#pragma once

#include <atomic>

namespace sccl::runtime {

// Stored (release) by Communicator::abort and Communicator::revoke, loaded (acquire) by everything that waits.
struct StopFlags {
  std::atomic<bool> abort{false};    // nothing of this communicator may wait any longer
  std::atomic<bool> revoked{false};  // communication ends, making communicators from this one goes on
};

}  // namespace sccl::runtime
