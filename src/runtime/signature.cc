#include "runtime/signature.h"

#include <fmt/format.h>

namespace sccl::runtime {
namespace {

// The finaliser of splitmix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

}  // namespace

std::uint32_t CallSignature::hash() const {
  std::uint64_t state = mix(sequence + 0x9e3779b97f4a7c15ull);
  state = mix(state ^ count);
  state = mix(state ^ (static_cast<std::uint64_t>(collective) << 48 | static_cast<std::uint64_t>(type) << 40 |
                       static_cast<std::uint64_t>(op) << 32 | static_cast<std::uint32_t>(root)));
  return static_cast<std::uint32_t>(state);
}

std::string CallSignature::text() const {
  const CollectiveInfo& about = info(collective);
  std::string text = fmt::format("{}(count={}, {}", about.call_name, count, info(type).name);
  if (about.reduces) text += fmt::format(", {}", name(op));
  if (about.rooted) text += fmt::format(", root={}", root);
  return text + ")";
}

std::uint32_t transfer_hash(std::uint64_t bytes) { return static_cast<std::uint32_t>(mix(bytes ^ 0x7032702d73656e64ull)); }

std::string mismatch_text(Rank mine, const CallSignature& my_call, Rank theirs, const CallSignature& their_call) {
  return fmt::format(
      "rank {} called {} while rank {} called {} as call {} of this communicator: make the ranks' calls equal, in the "
      "same order",
      mine, my_call.text(), theirs, their_call.text(), my_call.sequence);
}

}  // namespace sccl::runtime
