// Announces what one rank has made for all ranks of its host (choice/shared_results.h). The board lies in the shared
// memory of the host's first rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sccl::runtime {

struct PlanBoard {
  enum class State : std::uint64_t { making = 1, made = 2 };
  static constexpr std::uint64_t kStateBits = 3;

  // Only the rank that claimed an entry changes it, until it frees the entry.
  struct Entry {
    // A key and, in the lowest bits, the state. 0: free. Stored (release) after the members below, loaded (acquire)
    // before them.
    std::atomic<std::uint64_t> word{0};
    // These order no other data.
    std::atomic<std::int32_t> maker{-1};       // rank
    std::atomic<std::int32_t> descriptor{-1};  // in the maker's process
    std::atomic<std::uint64_t> inode{0};
    std::atomic<std::uint32_t> users{0};  // ranks that will not look at the entry any more
  };
  static constexpr std::size_t kEntries = 64;

  std::array<Entry, kEntries> entries;
};

}  // namespace sccl::runtime
