// Buffers that other processes can map: what ncclMemAlloc hands out on the host. Each is an anonymous memfd whose
// descriptor stays open, so that a process of the same user maps it by way of /proc without anybody passing it on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "platform/host/segment.h"

namespace sccl::host {

// Names a buffer to other processes of this host.
struct ExportedBuffer {
  std::uint64_t inode = 0;  // tells it from what the descriptor stood for before
  std::uint64_t begin = 0;  // its address here
  std::uint64_t bytes = 0;
  int descriptor = -1;

  bool holds(const void* address, std::size_t size) const {
    const std::uint64_t offset = reinterpret_cast<std::uint64_t>(address) - begin;
    return offset <= bytes && size <= bytes - offset;
  }
};

// Zero-filled whole pages; null where there is no descriptor or memory left for it.
void* allocate_exported(std::size_t bytes);

// False when it is none. Peers that map it read zeros afterwards; their pages are given back at once.
bool free_exported(void* memory);

// What [address, address + bytes) lies in.
std::optional<ExportedBuffer> find_exported(const void* address, std::size_t bytes);

// How many were freed: what peers mapped before may be gone.
std::uint64_t exported_freed();

// Maps another process's buffer. Throws system_error when that is not permitted, or when it is gone.
std::shared_ptr<Segment> map_exported(int process, const ExportedBuffer& buffer);

}  // namespace sccl::host
