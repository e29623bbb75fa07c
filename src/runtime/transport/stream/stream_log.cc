#include "runtime/transport/stream/stream_log.h"

namespace sccl::runtime {

std::uint32_t StreamLog::begin(std::uint32_t sequence, std::uint32_t finished) {
  const std::lock_guard lock(mutex_);
  // Sequences wrap around; the signed difference is right because few calls are in flight.
  std::erase_if(entries_, [&](const auto& known) {
    return known.second.sequence != 0 && static_cast<std::int32_t>(finished - known.second.sequence) >= 0;
  });
  do ++last_;
  while (last_ == 0 || entries_.count(last_) != 0);
  entries_[last_].sequence = sequence;
  return last_;
}

std::uint32_t StreamLog::append(std::uint32_t call, const StreamWait& wait) {
  const std::lock_guard lock(mutex_);
  std::vector<StreamWait>& waits = entries_[call].waits;
  waits.push_back(wait);
  return static_cast<std::uint32_t>(waits.size());
}

std::optional<StreamWait> StreamLog::find(std::uint32_t call, std::uint32_t stage) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(call);
  if (found == entries_.end() || stage == 0 || stage > found->second.waits.size()) return std::nullopt;
  return found->second.waits[stage - 1];
}

}  // namespace sccl::runtime
