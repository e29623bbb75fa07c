// One direction of a pair of ranks on different hosts, at one end: rings and slots of every kind, in private memory of
// this rank. The sender's interpreter fills the rings at its end, the receiver's empties those at the other one, and a
// link (link.h) moves between the two what was published, and what was consumed.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/host/connection.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {

class RemoteRings {
 public:
  // Addresses only: pages come when they are touched. Throws system_error where there are not even those.
  RemoteRings(int kinds, const MemoryLayout& layout);
  ~RemoteRings();
  RemoteRings(const RemoteRings&) = delete;
  RemoteRings& operator=(const RemoteRings&) = delete;

  struct One {
    device::Ring* ring = nullptr;
    device::u8* payload = nullptr;
    device::u8* inline_messages = nullptr;
    std::size_t slot_bytes = 0;
    device::u32 depth = 0;
    device::u32 inline_lines = 0;  // where messages begin
    device::u32 tail_lines = 0;    // behind those, of a message that runs on
    std::vector<device::u64> stale_lines;

    device::u8* slot(device::u64 position) const { return payload + (position & (depth - 1)) * slot_bytes; }
    std::size_t payload_bytes() const { return depth * slot_bytes; }
    device::u8* line(device::u64 number) const { return inline_messages + number * device::kCacheLineBytes; }
    // Fills in an end but for its stale lines and its bell.
    void attach(Rank peer, kernels::HostConnection& end);
  };
  One& of(int kind) { return rings_[static_cast<std::size_t>(kind)]; }
  const One& of(int kind) const { return rings_[static_cast<std::size_t>(kind)]; }
  int kinds() const { return static_cast<int>(rings_.size()); }

 private:
  std::vector<One> rings_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sccl::runtime
