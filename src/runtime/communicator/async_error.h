// What ncclCommGetAsyncError tells.
#pragma once

#include "runtime/communicator/communicator.h"

namespace sccl::runtime {

// As Lifecycle::async_error(). Also tells, and records, that a host of this communicator is lost: a rank that makes no
// call learns it here. Waits for the reason if a kernel was stopped, 1.5 s at most. For any thread; takes no lock.
int async_error(Communicator& communicator);

}  // namespace sccl::runtime
