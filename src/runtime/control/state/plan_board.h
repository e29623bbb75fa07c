// Where the ranks of a host tell one another of plans that one of them has made for all (choice/shared_plans.h). Lies
// in the shared memory of the first of them.
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
    std::atomic<std::int32_t> maker{-1};  // rank; stands for itself
    std::atomic<std::uint32_t> state{0};  // stored (release) after what follows, loaded (acquire) before it
    std::int32_t descriptor = -1;         // in the maker's process
    std::uint64_t bytes = 0;
    std::uint64_t inode = 0;
  };
  static constexpr std::size_t kEntries = 64;

  std::array<Entry, kEntries> entries;
};

}  // namespace sccl::runtime
