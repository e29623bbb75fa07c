#include "runtime/settings/call_wish.h"

#include "base/splitmix.h"
#include "runtime/call/signature.h"

namespace sccl::runtime {

std::uint32_t CallOptions::digest() const {
  if (wish.empty()) return 0;
  std::uint64_t state = mix(wish.slice_bytes + 1);
  state = mix(state ^ static_cast<std::uint64_t>(wish.protocol));
  for (const char letter : wish.algorithm) state = mix(state ^ static_cast<unsigned char>(letter));
  const auto result = static_cast<std::uint32_t>(state);
  return result == 0 ? 1 : result;
}

}  // namespace sccl::runtime
