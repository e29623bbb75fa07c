// At which calls the ranks compare their buffers. Programs that use other memory are spared the comparisons: while they
// end in vain, they take place at the 1st, 2nd, 4th ... of the calls in question only, then at each 64th.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sccl::runtime {

class ComparisonTurns {
 public:
  // Counts a call in question. Whether the ranks compare at it: every rank that counts the same calls is told the same.
  bool due() { return ++calls_ >= next_; }

  // The comparison of the call that was counted last has ended.
  enum class Result : std::uint8_t { useful, in_vain };
  void ended(Result result) {
    interval_ = result == Result::useful ? 1 : std::min(2 * interval_, kMostInterval);
    next_ = calls_ + interval_;
  }

 private:
  static constexpr std::uint64_t kMostInterval = 64;

  std::uint64_t calls_ = 0;
  std::uint64_t next_ = 1;
  std::uint64_t interval_ = 1;
};

}  // namespace sccl::runtime
