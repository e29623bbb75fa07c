#include "shim/join.h"

#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/os/out_of_memory.h"
#include "runtime/bootstrap/bootstrap.h"
#include "shim/handles.h"

namespace sccl::shim {

static_assert(sizeof(ncclUniqueId) == sizeof(runtime::UniqueId));

runtime::UniqueId to_runtime(const ncclUniqueId& id) {
  runtime::UniqueId converted;
  std::memcpy(converted.bytes.data(), id.internal, sizeof id);
  return converted;
}

void tell_lack_of_memory(std::span<const ncclUniqueId> ids, int rank, int ranks) noexcept {
  try {
    std::vector<runtime::UniqueId> all;
    for (const ncclUniqueId& id : ids) all.push_back(to_runtime(id));
    runtime::Bootstrap::fail_early(all, rank, ranks, kOutOfMemory);
  } catch (const std::bad_alloc&) {
    // There is no memory to tell it either.
  }
}

runtime::Completion join(ncclComm_t* comm, const std::shared_ptr<runtime::Communicator>& communicator) {
  ncclComm_t handle = nullptr;
  try {
    handle = make_handle(communicator);
  } catch (const std::bad_alloc&) {
    communicator->fail_to_connect(kOutOfMemory);
    throw;
  }
  // Released: another thread of the program may look at the place, to abort an init that hangs.
  __atomic_store_n(comm, handle, __ATOMIC_RELEASE);
  try {
    return runtime::submit_init(communicator);
  } catch (...) {
    take_communicator(*comm);
    *comm = nullptr;
    throw;
  }
}

}  // namespace sccl::shim
