// Slots in a device's own memory, for an engine whose network adapter reads and writes there: long messages then pass
// no host memory.
#pragma once

#include <memory>

#include "platform/gpu/memory.h"
#include "runtime/transport/net/link/slot_memory.h"
#include "runtime/transport/net/net_membership.h"

namespace sccl::runtime {

class DeviceSlots final : public SlotMemory {
 public:
  // `adapter`: of the engine.
  DeviceSlots(std::shared_ptr<gpu::DeviceMemory> memory, const net::Device& adapter)
      : memory_(std::move(memory)), by_address_(adapter.cuda_memory), by_descriptor_(adapter.dmabuf) {}

  std::byte* at(std::size_t offset) const override { return reinterpret_cast<std::byte*>(memory_->address() + offset); }
  // By descriptor where plugin and driver know that way, else by address.
  std::unique_ptr<net::Registration> register_with(net::Connection& connection) const override;
  const gpu::DeviceMemory& memory() const { return *memory_; }

 private:
  std::shared_ptr<gpu::DeviceMemory> memory_;
  bool by_address_, by_descriptor_;
};

// Whether a message passes from this device's memory to itself over the engine, where both ends have `bytes` of slots.
// A line of the log says why not, or that it does. At init: no kernel of the communicator runs.
bool passes_device_memory(const NetMembership& peers, const gpu::Device& device, std::size_t bytes);

}  // namespace sccl::runtime
