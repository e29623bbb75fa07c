// Announces plans that one rank has made for all ranks of its host (choice/shared_plans.h). The board lies in the
// shared memory of the host's first rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sccl::runtime {

struct PlanBoard {
  enum class State : std::uint32_t { making, made, failed };
  struct Entry {
    std::atomic<std::uint64_t> key{0};    // 0: free
    std::atomic<std::int32_t> maker{-1};  // rank; orders no other data
    std::atomic<std::uint32_t> state{0};  // stored (release) after the members below, loaded (acquire) before them
    std::int32_t descriptor = -1;         // in the maker's process
    std::uint64_t bytes = 0;
    std::uint64_t inode = 0;
  };
  static constexpr std::size_t kEntries = 64;

  std::array<Entry, kEntries> entries;
};

}  // namespace sccl::runtime
