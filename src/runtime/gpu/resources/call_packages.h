// Mapped host memory that is lent to calls: programs and tables of chunks on their way to the device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "platform/gpu/memory.h"
#include "runtime/transport/p2p/device_neighbour.h"

namespace sccl::runtime {

class CallPackages {
 public:
  // `words` tell which of this rank's kernels have ended; they must outlive this object.
  CallPackages(const gpu::Device& device, const NeighbourWords& words);

  struct Loan {
    std::byte* data = nullptr;  // for the host
    gpu::Address address = 0;   // for the device
  };
  // The memory is free again once the kernel of this sequence number has ended; for 0 (a call that may be replayed) it
  // is never free again. Allocates if no memory is free.
  Loan lend(std::size_t bytes, device::u64 sequence);
  // Whether lend() would not allocate.
  bool can_lend(std::size_t bytes) const;
  // Whether a kernel up to `last_sequence` will give back memory that suffices.
  bool returns_after(std::size_t bytes, device::u64 last_sequence) const;

 private:
  struct Package {
    Loan memory;
    std::size_t bytes;
    std::optional<device::u64> lent_to;
  };

  bool is_free(const Package& package) const;
  std::vector<Package>::iterator find(std::size_t bytes);
  void add(std::size_t count, std::size_t bytes);

  gpu::Device device_;
  const NeighbourWords& words_;
  std::vector<std::unique_ptr<gpu::MappedMemory>> memories_;
  std::vector<Package> packages_;
};

}  // namespace sccl::runtime
