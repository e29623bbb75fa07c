// Memory of a device that holds the payloads of long messages at one end of a link, in the place of the rings' own
// slots. The engine moves payloads from there and to there. The processor cannot reach this memory, and a copy may not
// run beside the kernels that wait for it: streams share hardware queues.
#pragma once

#include <cstddef>
#include <memory>

#include "net/net.h"

namespace sccl::runtime {

class SlotMemory {
 public:
  SlotMemory() = default;
  virtual ~SlotMemory() = default;
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  // For the engine.
  virtual std::byte* at(std::size_t offset) const = 0;
  // Registers the memory as a whole. Throws if the engine refuses.
  virtual std::unique_ptr<net::Registration> register_with(net::Connection& connection) const = 0;
};

}  // namespace sccl::runtime
