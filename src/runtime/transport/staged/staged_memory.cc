#include "runtime/transport/staged/staged_memory.h"

#include "platform/host/numa.h"

namespace sccl::runtime {

std::shared_ptr<StagedMemory> StagedMemory::create(const gpu::Device& device, std::size_t bytes) {
  auto segment = host::Segment::create(bytes);
  host::prefer_node(segment->data(), bytes, host::node_of_pci_device(device.busid));
  return std::make_shared<StagedMemory>(device, std::move(segment));
}

std::shared_ptr<StagedMemory> StagedMemory::map(const gpu::Device& device, const FileDescriptor& descriptor,
                                                std::size_t bytes) {
  return std::make_shared<StagedMemory>(device, host::Segment::map(descriptor, bytes));
}

}  // namespace sccl::runtime
