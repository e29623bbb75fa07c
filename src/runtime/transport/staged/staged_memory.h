// Host memory through which ranks exchange messages whose devices do not reach each other.
//
//   sender's device --- writes across the bus ---> slot in host memory <--- reads across the bus --- receiver's device
//
// It belongs to the receiver and lies on the NUMA node of the receiver's device: writes into it are posted and wait for
// nobody, while the receiver polls flags and reads payloads, and a read waits for its answer. Slots, flags and tails
// are those of device memory: release and acquire of system scope order stores to host memory as well.
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
  // Another process's, for a device of this one.
  static std::shared_ptr<StagedMemory> map(const gpu::Device& device, const FileDescriptor& descriptor,
                                           std::size_t bytes);

  gpu::Address address_for(const gpu::Device& device) const { return pinned_.address_for(device); }
  // Of the creator, until close_descriptor().
  int descriptor() const { return segment_->descriptor(); }
  void close_descriptor() { segment_->close_descriptor(); }

  StagedMemory(const gpu::Device& device, std::shared_ptr<host::Segment> segment)
      : segment_(std::move(segment)), pinned_(device, segment_->data(), segment_->size()) {}

 private:
  std::shared_ptr<host::Segment> segment_;
  gpu::PinnedMemory pinned_;  // unpinned before the segment goes
};

}  // namespace sccl::runtime
