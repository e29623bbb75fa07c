#include "runtime/gpu/resources/working_memory.h"

#include <algorithm>

#include "base/round_up.h"
#include "runtime/gpu/resources/private_memory.h"
#include "runtime/transport/stream/stream_path.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kKeptBytes = 1 << 20;
constexpr std::size_t kLeastGrownBytes = 64 * 1024;
constexpr std::size_t kLeastLanes = 64;  // of a channel
constexpr std::size_t kWorkingPart = 4;  // the working memory is 1/4 of the memory that the rank shares
constexpr std::size_t kLeastWorkingBytes = 4 << 20;
constexpr std::size_t kMostWorkingBytes = 64 << 20;
constexpr std::size_t kSlotsOfStreams = 4;

}  // namespace

WorkingMemory::WorkingMemory(const DeviceMembership& membership) : device_(membership.device) {
  const DeviceLayout& layout = membership.layout;
  const std::size_t lanes = std::max<std::size_t>(kLeastLanes, 4 * membership.peers.size());
  this->lanes(static_cast<std::size_t>(layout.channels()) * lanes);
  const std::size_t bytes = std::clamp(layout.total_bytes() / kWorkingPart, kLeastWorkingBytes, kMostWorkingBytes);
  const std::size_t slot = membership.streams ? membership.streams->slot_bytes : 0;
  grow(scratch_, std::max(bytes / 2, kSlotsOfStreams * slot));
  grow(bounce_, bytes / 2);
  grow(kept_, kKeptBytes);
}

const gpu::DeviceMemory& WorkingMemory::grow(Region& region, std::size_t bytes) {
  memories_.push_back(allocate_private(device_, bytes));
  const gpu::DeviceMemory& memory = *memories_.back();
  region = {memory.address(), memory.bytes()};
  return memory;
}

device::u8* WorkingMemory::grown(Region& region, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (region.bytes < bytes) grow(region, std::max(kLeastGrownBytes, bytes));
  return reinterpret_cast<device::u8*>(region.begin);
}

// New lanes are in the state in which kernels leave lanes.
device::LaneState* WorkingMemory::lanes(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>(1, count) * sizeof(device::LaneState);
  if (lanes_.bytes < bytes) {
    const gpu::DeviceMemory& memory = grow(lanes_, std::max(kLeastGrownBytes, bytes));
    const std::vector<device::LaneState> fresh(memory.bytes() / sizeof(device::LaneState),
                                               device::LaneState{0, 0, 0, -1});
    memory.write(0, fresh.data(), fresh.size() * sizeof fresh[0]);
  }
  return reinterpret_cast<device::LaneState*>(lanes_.begin);
}

gpu::Address WorkingMemory::keep(std::size_t bytes) {
  if (kept_.bytes - kept_bytes_ < bytes) {
    grow(kept_, std::max(kKeptBytes, bytes));
    kept_bytes_ = 0;
  }
  const std::size_t offset = kept_bytes_;
  kept_bytes_ = std::min(kept_.bytes, round_up(offset + bytes, 64));
  return kept_.begin + offset;
}

}  // namespace sccl::runtime
