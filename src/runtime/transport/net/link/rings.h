// The rings and slots of one direction at one end, between two ranks of different hosts. They lie in private memory.
// The sender's interpreter fills the rings at the sender's end, the receiver's interpreter empties the rings at the
// receiver's end, and a link (link.h) moves messages and tails between the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/host/messages/connection.h"
#include "kernels/host/messages/slot_places.h"
#include "runtime/transport/net/link/slot_memory.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {

// The form of flags, as the interpreter of this end reads and writes them: `counted` on the host, `with_signature` on
// devices (device/protocol.h, kSignedFlags).
enum class FlagForm : std::uint8_t { counted, with_signature };

// The rings of a link by kind, the same at both ends but for the memory of long messages.
struct LinkShape {
  struct Ring {
    std::size_t slot_bytes = 0;
    device::u32 depth = 0;
    device::u32 inline_lines = 0;  // lines of the ring; a message begins in one of them
    device::u32 tail_lines = 0;    // lines behind the ring, into which the last message of a round may extend
    device::u32 short_bytes = 0;   // of a slot for short messages; 0: there are none
  };
  std::vector<Ring> kinds;
  FlagForm flags = FlagForm::counted;
  // Memory of a device for so many bytes of slots, which then hold the messages of more than `most_short_bytes`. Null:
  // there is none.
  std::function<std::unique_ptr<SlotMemory>(std::size_t bytes)> device_slots{};
  std::size_t most_short_bytes = 0;

  std::size_t slots_bytes() const {
    std::size_t bytes = 0;
    for (const Ring& ring : kinds) bytes += kernels::slots_bytes(ring);
    return bytes;
  }
  int count() const { return static_cast<int>(kinds.size()); }
};
// Of ranks on the host.
LinkShape link_shape_of(const MemoryLayout& layout, int ranks);

class RemoteRings {
 public:
  // The most memory that one of them takes. A rank has two for each rank of another host.
  static std::size_t most_bytes(const LinkShape& shape);

  // Reserves addresses; memory is used when pages are touched. Throws system_error if no addresses are left.
  explicit RemoteRings(const LinkShape& shape);
  ~RemoteRings();
  RemoteRings(const RemoteRings&) = delete;
  RemoteRings& operator=(const RemoteRings&) = delete;

  struct One : LinkShape::Ring {
    device::Ring* ring = nullptr;
    device::u8* payload = nullptr;
    device::u8* inline_messages = nullptr;
    std::size_t device_offset = 0;  // of the first slot in the memory of long messages
    std::vector<device::u64> stale_lines;

    device::u8* slot(device::u64 position, device::u64 bytes) const {
      return payload + kernels::slot_offset(*this, position, bytes);
    }
    std::size_t device_slot(device::u64 position, device::u64 bytes) const {
      return device_offset + kernels::slot_offset(*this, position, bytes);
    }
    std::size_t payload_bytes() const { return kernels::slots_bytes(*this); }
    device::u8* line(device::u64 number) const { return inline_messages + number * device::kCacheLineBytes; }
    // Fills in an end but for its stale lines and its bell.
    void attach(Rank peer, kernels::HostConnection& end);
  };
  One& of(int kind) { return rings_[static_cast<std::size_t>(kind)]; }
  const One& of(int kind) const { return rings_[static_cast<std::size_t>(kind)]; }
  int kinds() const { return static_cast<int>(rings_.size()); }
  // Where long messages lie; null: in the rings' own slots, as all others.
  const SlotMemory* device_slots() const { return device_slots_.get(); }
  const std::byte* device_slots_of(int kind) const {
    return device_slots_ ? device_slots_->at(of(kind).device_offset) : nullptr;
  }
  // All of the rings; begins a page.
  std::span<std::byte> memory() const { return {memory_, bytes_}; }

 private:
  std::vector<One> rings_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<SlotMemory> device_slots_;
};

}  // namespace sccl::runtime
