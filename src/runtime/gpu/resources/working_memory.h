// Device memory that kernels of a rank use for their own work, and programs that stay on the device.
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
  // Sets aside what built-in schedules need on so many ranks, and more.
  explicit WorkingMemory(const DeviceMembership& membership);

  // Kernels leave this memory as they find it, so one kernel after another may use the same. Where a call needs more,
  // the memory grows, which may wait for everything that runs on the device. What a captured kernel may use stays.
  device::LaneState* lanes(std::size_t count);
  device::u8* bounce(std::size_t bytes) { return grown(bounce_, bytes); }
  device::u8* scratch(std::size_t bytes) { return grown(scratch_, bytes); }

  // Memory for as long as this object lives, for the caller to fill. May grow likewise.
  gpu::Address keep(std::size_t bytes);

 private:
  // Memory of one use. What it was before it grew is kept with it.
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
