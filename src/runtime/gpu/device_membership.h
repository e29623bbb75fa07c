// What ranks of a communicator share on their devices.
#pragma once

#include <memory>
#include <vector>

#include "platform/gpu/device.h"
#include "platform/gpu/memory.h"
#include "runtime/gpu/device_layout.h"

namespace sccl::runtime {

struct DevicePeer {
  std::shared_ptr<gpu::DeviceMemory> memory;  // laid out by DeviceLayout
  bool same_process = false;
};

struct StreamPath;

struct DeviceMembership {
  gpu::Device device;
  DeviceLayout layout{1, 1, 0};
  int blocks = 1;     // that this rank may have running, so that all ranks of its device fit beside one another
  int neighbours = 1; // ranks of this device, this one included
  bool direct = false;  // kernels can use every rank's buffers: all are this process's and their devices are linked
  std::vector<DevicePeer> peers;
  std::shared_ptr<StreamPath> streams;  // null where kernels serve all calls
};

}  // namespace sccl::runtime
