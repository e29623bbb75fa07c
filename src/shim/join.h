// How a rank joins a communicator that is named by a unique id.
#pragma once

#include <memory>
#include <new>
#include <span>

#include "nccl_shim/nccl.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/group.h"

namespace sccl::shim {

runtime::UniqueId to_runtime(const ncclUniqueId& id);

// Stores the handle before the ranks connect, so that a grouped init has it at once and another thread can abort it. A
// failed init outside of a group removes the handle again.
runtime::Completion join(ncclComm_t* comm, const std::shared_ptr<runtime::Communicator>& communicator);

// Tells the other ranks, as far as that needs no memory.
void tell_lack_of_memory(std::span<const ncclUniqueId> ids, int rank, int ranks) noexcept;

// `options` returns those of the communicator.
template <typename Options>
runtime::Completion join(ncclComm_t* comm, std::span<const ncclUniqueId> ids, int rank, int ranks, Options&& options) {
  std::shared_ptr<runtime::Communicator> communicator;
  try {
    communicator = std::make_shared<runtime::Communicator>(options());
  } catch (const std::bad_alloc&) {
    tell_lack_of_memory(ids, rank, ranks);
    throw;
  }
  return join(comm, communicator);
}

}  // namespace sccl::shim
