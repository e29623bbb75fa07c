#include "runtime/communicator/state/user_reductions.h"

#include <atomic>

#include "base/error.h"

namespace sccl::runtime {

int UserReductions::create(DataType type, std::uint64_t scalar_bits, const void* scalar_pointer) {
  // Handles are unique in the process, so that no communicator knows the handles of another.
  static std::atomic<int> next_handle{kFirstUserOp};
  const int handle = next_handle.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  entries_[handle] = {type, {ReduceOp::premul_sum, scalar_bits, scalar_pointer}};
  return handle;
}

void UserReductions::destroy(int handle) {
  const std::lock_guard lock(mutex_);
  if (entries_.erase(handle) == 0)
    fail(ErrorCode::invalid_argument, "reduction {} is not one this communicator made: destroy only those, once",
         handle);
}

Reduction UserReductions::find(int handle, DataType type) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end())
    fail(ErrorCode::invalid_argument, "reduction {} is neither built in nor made by this communicator", handle);
  if (found->second.type != type)
    fail(ErrorCode::invalid_argument, "reduction {} was made for {} but is used with {}: make one for each type",
         handle, info(found->second.type).name, info(type).name);
  return found->second.reduction;
}

}  // namespace sccl::runtime
