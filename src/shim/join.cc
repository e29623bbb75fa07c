#include "shim/join.h"

#include <cstring>
#include <memory>
#include <utility>

#include "shim/handles.h"

namespace sccl::shim {

static_assert(sizeof(ncclUniqueId) == sizeof(runtime::UniqueId));

runtime::UniqueId to_runtime(const ncclUniqueId& id) {
  runtime::UniqueId converted;
  std::memcpy(converted.bytes.data(), id.internal, sizeof id);
  return converted;
}

runtime::Completion join(ncclComm_t* comm, runtime::CommunicatorOptions options) {
  const auto communicator = std::make_shared<runtime::Communicator>(std::move(options));
  // Released: another thread of the program may look at the place, to abort an init that hangs.
  __atomic_store_n(comm, make_handle(communicator), __ATOMIC_RELEASE);
  try {
    return runtime::submit_init(communicator);
  } catch (...) {
    take_communicator(*comm);
    *comm = nullptr;
    throw;
  }
}

}  // namespace sccl::shim
