// Device memory that a rank's kernels use for their own work, and memory for programs that stay on the device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "platform/gpu/memory.h"
#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

class WorkingMemory {
 public:
  // Allocates more than the built-in schedules need for this number of ranks.
  explicit WorkingMemory(const DeviceMembership& membership);

  // Kernels leave this memory as they find it, so successive kernels can use the same memory. If a call needs more, the
  // memory grows, which may wait for all work on the device. Memory that a captured kernel may use stays.
  device::LaneState* lanes(std::size_t count);
  device::u8* bounce(std::size_t bytes) { return grown(bounce_, bytes); }
  device::u8* scratch(std::size_t bytes) { return grown(scratch_, bytes); }

  // Memory for the caller to fill; it lives as long as this object. May grow in the same way.
  gpu::Address keep(std::size_t bytes);

 private:
  // The current memory for one purpose. When a region grows, its earlier memory stays in memories_.
  struct Region {
    gpu::Address begin = 0;
    std::size_t bytes = 0;
  };

  device::u8* grown(Region& region, std::size_t bytes);
  const gpu::DeviceMemory& grow(Region& region, std::size_t bytes);

  gpu::Device device_;
  std::vector<std::shared_ptr<gpu::DeviceMemory>> memories_;  // behind the regions
  Region lanes_;
  Region bounce_;
  Region scratch_;
  Region kept_;
  std::size_t kept_bytes_ = 0;  // used of kept_
};

}  // namespace sccl::runtime
