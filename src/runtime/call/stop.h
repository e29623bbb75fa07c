// The flags that end the running work of a communicator.
#pragma once

#include <atomic>

namespace sccl::runtime {

// Communicator::abort and Communicator::revoke store these flags (release); every wait loads them (acquire).
struct StopFlags {
  std::atomic<bool> abort{false};    // every wait of this communicator ends
  std::atomic<bool> revoked{false};  // communication ends; new communicators can still be made from this one
};

}  // namespace sccl::runtime
