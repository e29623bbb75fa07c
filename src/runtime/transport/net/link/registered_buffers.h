// The program's memory that an engine may send from as it lies there: buffers of ncclCommRegister, and what
// ncclMemAlloc returns. Engines that need a registration of memory cost too much to make one for every call's buffer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace sccl::runtime {

// For any thread.
class RegisteredBuffers {
 public:
  // Two regions are equal if their pages are, too: memory that was given back and made again is another region.
  struct Region {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::uint64_t inode = 0;  // of ncclMemAlloc's file; 0: of ncclCommRegister
    std::uint64_t age = 0;

    auto operator<=>(const Region&) const = default;
  };

  // The same memory may be added several times.
  void add(const void* begin, std::size_t bytes);
  void remove(const void* begin, std::size_t bytes);

  // The memory that holds [data, data + bytes).
  std::optional<Region> find(const std::byte* data, std::size_t bytes) const;
  bool is_current(const Region& region) const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::vector<Region> added_;
  std::uint64_t next_age_ = 0;
};

}  // namespace sccl::runtime
