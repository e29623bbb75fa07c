#include "runtime/settings/call_wish.h"

#include <mutex>
#include <set>

#include "runtime/call/signature.h"

namespace sccl::runtime {

std::uint32_t CallOptions::digest() const {
  std::uint64_t state = mix(wish.slice_bytes + 1);
  state = mix(state ^ static_cast<std::uint64_t>(wish.protocol));
  for (const char letter : wish.algorithm) state = mix(state ^ static_cast<unsigned char>(letter));
  const auto result = static_cast<std::uint32_t>(state);
  return result == 0 ? 1 : result;
}

const CallOptions* kept_options(const CallOptions& options) {
  const auto less = [](const CallOptions& a, const CallOptions& b) { return a.key() < b.key(); };
  static std::mutex mutex;
  static auto* const kept = new std::set<CallOptions, decltype(less)>(less);
  const std::lock_guard lock(mutex);
  return &*kept->insert(options).first;
}

}  // namespace sccl::runtime
