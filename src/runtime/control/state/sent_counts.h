// How many messages a rank has sent to ranks of other hosts that have not confirmed all of them. Those ranks read the
// counts over the control connections, so they learn that messages are missing which the data connection has lost.
//
// The owner notes counts only where it looks closer: in a long wait, and now and then between calls. A count may be
// old, and is true all the same: so many messages were sent.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/types.h"

namespace sccl::runtime {

class SentCounts {
 public:
  static constexpr std::size_t kMost = 8;  // ranks; with more of them, some are forgotten
  using Words = std::array<std::uint64_t, kMost>;

  // Only the owner calls it, one thread at a time. Each word stands for itself.
  void note(Rank to, std::uint64_t count) {
    std::size_t place = static_cast<std::size_t>(to) % kMost;
    for (std::size_t at = kMost; at-- > 0;)
      if (const std::uint64_t word = words_[at].load(std::memory_order_relaxed); word == 0 || is_for(to, word)) {
        place = at;
        if (word != 0) break;
      }
    words_[place].store(key_of(to) | (count & kMask), std::memory_order_relaxed);
  }
  std::optional<std::uint64_t> of(Rank to) const {
    for (const auto& one : words_)
      if (const std::uint64_t word = one.load(std::memory_order_relaxed); word != 0 && is_for(to, word))
        return word & kMask;
    return std::nullopt;
  }
  // More were sent than received. Counts lose their high bits.
  static bool is_ahead(std::uint64_t sent, std::uint64_t received) {
    const std::uint64_t missing = (sent - received) & kMask;
    return missing != 0 && missing <= kMask / 2;
  }

  Words words() const {
    Words copy{};
    for (std::size_t at = 0; at < kMost; ++at) copy[at] = words_[at].load(std::memory_order_relaxed);
    return copy;
  }
  void store(const Words& words) {
    for (std::size_t at = 0; at < kMost; ++at) words_[at].store(words[at], std::memory_order_relaxed);
  }

 private:
  static constexpr int kCountBits = 40;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kCountBits) - 1;

  static std::uint64_t key_of(Rank rank) { return (static_cast<std::uint64_t>(rank) + 1) << kCountBits; }
  static bool is_for(Rank rank, std::uint64_t word) { return (word & ~kMask) == key_of(rank); }

  std::array<std::atomic<std::uint64_t>, kMost> words_{};
};

}  // namespace sccl::runtime
