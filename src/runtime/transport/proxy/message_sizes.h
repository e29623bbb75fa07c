// How long the messages of a rank's calls may be, by the signature that their flags carry. A device's flag does not
// tell a message's length, and kernels know nothing of other hosts; so the host notes the longest message of each call
// that it prepares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace sccl::runtime {

// For any thread.
class MessageSizes {
 public:
  explicit MessageSizes(std::size_t slot_bytes) : slot_bytes_(slot_bytes) {}

  // Calls of one signature may differ; the longest counts.
  void note(std::uint32_t signature, std::size_t bytes);
  // At least the length of a message with this signature, at most a slot.
  std::size_t of(std::uint32_t signature) const;

 private:
  static constexpr std::size_t kMostNoted = 1 << 16;

  const std::size_t slot_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::size_t> noted_;
};

}  // namespace sccl::runtime
