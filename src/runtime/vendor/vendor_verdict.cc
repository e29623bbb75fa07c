#include "runtime/vendor/vendor_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sccl::runtime {

VendorWord VendorWord::without(VendorStanding standing, const std::string& why) {
  VendorWord word;
  word.standing = standing;
  std::memcpy(word.text.data(), why.data(), std::min(why.size(), word.text.size() - 1));
  return word;
}

VendorWord vendor_word_of(const ControlAllGather::Payload& payload) {
  VendorWord word;
  std::memcpy(&word, payload.data(), sizeof word);
  word.text.back() = word.standing == VendorStanding::usable ? word.text.back() : '\0';
  return word;
}

VendorVerdict verdict(VendorMode agreed, std::span<const VendorWord> words) {
  using Outcome = VendorVerdict::Outcome;
  VendorVerdict result;
  result.functions = ~std::uint64_t{0};
  const auto tell = [&](Outcome outcome, std::size_t rank, const std::string& why) {
    if (result.outcome >= outcome) return;
    result.outcome = outcome;
    result.why = fmt::format("rank {}: {}", rank, why);
  };
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    const VendorWord& word = words[rank];
    result.functions &= word.functions;
    if (word.standing == VendorStanding::usable || word.standing == VendorStanding::follows) continue;
    const bool refuses = word.standing == VendorStanding::broken && agreed == VendorMode::asked;
    tell(refuses ? Outcome::refuse : Outcome::leave_out, rank, word.text.data());
  }
  for (std::size_t rank = 0; rank < words.size(); ++rank)
    if (words[rank].standing == VendorStanding::follows) tell(Outcome::leave_out, rank, words[rank].text.data());
  if (result.outcome != Outcome::use) return result;
  for (std::size_t rank = 1; rank < words.size(); ++rank)
    if (words[rank].version != words.front().version)
      tell(agreed == VendorMode::asked ? Outcome::refuse : Outcome::leave_out, rank,
           fmt::format("has version {}, and rank 0 has {}: give all ranks the same library",
                       version_text(words[rank].version), version_text(words.front().version)));
  return result;
}

}  // namespace sccl::runtime
