// Where a device puts blocks: each on one multiprocessor, which must have all that the block takes. What is free on two
// multiprocessors together serves no block.
//
// As real devices do: a block goes to the multiprocessor that has most free, so that blocks spread before they share.
// Nothing is moved or stopped for another block.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace fake {

// What a block takes, and what a multiprocessor has: an H100's.
struct BlockNeeds {
  int blocks = 1;
  int threads = 0;
  int registers = 0;
  int shared_bytes = 0;
};
inline constexpr BlockNeeds kWholeMultiprocessor{32, 2048, 65536, 228 * 1024};

class Multiprocessors {
 public:
  explicit Multiprocessors(int count) { resize(count); }

  // Those that are gone keep their blocks until these end.
  void resize(int count) {
    count_ = static_cast<std::size_t>(count);
    if (free_.size() < count_) free_.resize(count_, kWholeMultiprocessor);
  }

  // The multiprocessor on which the block is now.
  std::optional<int> place(const BlockNeeds& block) {
    std::optional<int> best;
    for (std::size_t i = 0; i < count_; ++i)
      if (fits(block, free_[i]) && (!best || has_more(free_[i], at(*best)))) best = static_cast<int>(i);
    if (best) add(at(*best), block, -1);
    return best;
  }
  void end(int multiprocessor, const BlockNeeds& block) { add(at(multiprocessor), block, 1); }

  int blocks() const {
    int sum = 0;
    for (const BlockNeeds& free : free_) sum += kWholeMultiprocessor.blocks - free.blocks;
    return sum;
  }

 private:
  BlockNeeds& at(int multiprocessor) { return free_[static_cast<std::size_t>(multiprocessor)]; }
  static bool fits(const BlockNeeds& block, const BlockNeeds& free) {
    return block.blocks <= free.blocks && block.threads <= free.threads && block.registers <= free.registers &&
           block.shared_bytes <= free.shared_bytes;
  }
  static bool has_more(const BlockNeeds& one, const BlockNeeds& other) {
    return one.registers != other.registers ? one.registers > other.registers : one.blocks > other.blocks;
  }
  static void add(BlockNeeds& free, const BlockNeeds& block, int sign) {
    free.blocks += sign * block.blocks;
    free.threads += sign * block.threads;
    free.registers += sign * block.registers;
    free.shared_bytes += sign * block.shared_bytes;
  }

  std::size_t count_ = 0;
  std::vector<BlockNeeds> free_;
};

}  // namespace fake
