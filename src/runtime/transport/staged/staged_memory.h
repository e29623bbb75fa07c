// Host memory for messages between ranks whose devices do not reach each other.
//
//   sender's device --- writes across the bus ---> slot in host memory <--- reads across the bus --- receiver's device
//
// The memory belongs to the receiver and lies on the NUMA node of the receiver's device. The receiver polls flags and
// reads payloads, and each read waits for its answer, so reads need the shorter way. The sender's writes are posted:
// the sender does not wait for them. Slots, flags and tails work as in device memory, because release and acquire of
// system scope order stores to host memory, too.
#pragma once

#include <memory>

#include "base/fd.h"
#include "platform/gpu/memory.h"
#include "platform/host/segment.h"

namespace sccl::runtime {

class StagedMemory {
 public:
  // Zero-filled, near the device.
  static std::shared_ptr<StagedMemory> create(const gpu::Device& device, std::size_t bytes);
  // Maps the memory of another process, for a device of this process.
  static std::shared_ptr<StagedMemory> map(const gpu::Device& device, const FileDescriptor& descriptor,
                                           std::size_t bytes);

  gpu::Address address_for(const gpu::Device& device) const { return pinned_.address_for(device); }
  // For the creator only; valid until close_descriptor().
  int descriptor() const { return segment_->descriptor(); }
  void close_descriptor() { segment_->close_descriptor(); }

  StagedMemory(const gpu::Device& device, std::shared_ptr<host::Segment> segment)
      : segment_(std::move(segment)), pinned_(device, segment_->data(), segment_->size()) {}

 private:
  std::shared_ptr<host::Segment> segment_;
  gpu::PinnedMemory pinned_;  // declared last, so it is unpinned before the segment is unmapped
};

}  // namespace sccl::runtime
