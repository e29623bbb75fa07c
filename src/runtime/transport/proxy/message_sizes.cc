#include "runtime/transport/proxy/message_sizes.h"

#include <algorithm>

namespace sccl::runtime {

// When there are too many, all are forgotten: their messages then travel as whole slots.
void MessageSizes::note(std::uint32_t signature, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (noted_.size() >= kMostNoted) noted_.clear();
  std::size_t& longest = noted_[signature];
  longest = std::max(longest, std::min(bytes, slot_bytes_));
}

std::size_t MessageSizes::of(std::uint32_t signature) const {
  const std::lock_guard lock(mutex_);
  const auto found = noted_.find(signature);
  return found == noted_.end() ? slot_bytes_ : found->second;
}

}  // namespace sccl::runtime
