// How a rank joins a communicator that is named by a unique id.
#pragma once

#include "nccl_shim/nccl.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/group.h"

namespace sccl::shim {

runtime::UniqueId to_runtime(const ncclUniqueId& id);

// Stores the handle before the ranks connect, so that a grouped init has it at once and another thread can abort it. A
// failed init outside of a group removes the handle again.
runtime::Completion join(ncclComm_t* comm, runtime::CommunicatorOptions options);

}  // namespace sccl::shim
