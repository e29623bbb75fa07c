#include "runtime/vendor/library/vendor_buffers.h"

#include <utility>
#include <vector>

#include "base/settings/log.h"

namespace sccl::runtime {

void VendorBuffers::add(const void* own, void* base, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  buffers_[own] = {base, bytes, Known::no, nullptr};
  ++unknown_;
}

bool VendorBuffers::remove_unknown(const void* own) {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(own);
  if (found == buffers_.end()) return true;
  if (found->second.known == Known::yes) return false;
  buffers_.erase(found);
  --unknown_;
  return true;
}

// Without the lock while the library registers, which may take long.
void VendorBuffers::pass_on(const VendorFunctions& functions, ncclComm_t communicator) {
  std::vector<std::pair<const void*, Buffer>> fresh;
  {
    const std::lock_guard lock(mutex_);
    if (unknown_ == 0) return;
    for (auto& [own, buffer] : buffers_)
      if (std::exchange(buffer.known, Known::yes) == Known::no) fresh.emplace_back(own, buffer);
    unknown_ = 0;
  }
  for (auto& [own, buffer] : fresh) {
    const ncclResult_t result = functions.register_buffer(communicator, buffer.base, buffer.bytes, &buffer.theirs);
    if (result != ncclSuccess) buffer.theirs = nullptr;
    if (result != ncclSuccess && !std::exchange(told_of_failure_, true))
      log::info(log::Subsystem::init,
                "ncclCommRegister of {} bytes fails in the vendor's library ({}): its calls go on without",
                buffer.bytes, functions.error_string(result));
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [own, buffer] : fresh) buffers_[own].theirs = buffer.theirs;
}

ncclResult_t VendorBuffers::withdraw(const VendorFunctions& functions, ncclComm_t communicator, const void* own) {
  void* theirs = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(own);
    if (found == buffers_.end()) return ncclSuccess;
    theirs = found->second.theirs;
    buffers_.erase(found);
  }
  return theirs == nullptr ? ncclSuccess : functions.deregister_buffer(communicator, theirs);
}

}  // namespace sccl::runtime
