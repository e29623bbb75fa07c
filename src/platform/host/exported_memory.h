// Buffers that other processes can map: what ncclMemAlloc hands out on the host. Each is an anonymous memfd whose
// descriptor stays open, so that a process of the same user maps it by way of /proc without anybody passing it on.
//
// Who has mapped a buffer can write into it for as long as it keeps the mapping, and a stopped process cannot be asked
// to give it up. So the owner can take pages back: it maps the same file anew under them, private this time, and
// touches every page. The kernel then copies each page once, at its first touch, by whichever thread that comes from:
//
//   shared mapping of the file      private mapping of the file      own pages
//   all see what anybody writes     stores copy the page first       peers keep the file's pages
//
// No store of this process is lost on the way, not even of other threads beside the range: those before the change lie
// in the file's page that is copied, those after it go to the copy. A buffer of which pages were taken back is offered
// to nobody any more.
//
// A forked child has a copy of everything, but the file's pages are its parent's: in the child the mappings become
// private, as all other memory is, so that its stores reach nobody else. What it has not stored to itself shows it what
// the parent stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "platform/host/segment.h"

namespace sccl::host {

// More bytes than any process can address.
inline constexpr std::size_t kMostAddressableBytes = std::size_t{1} << 48;

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

// False when it is none. Peers that map it read zeros afterwards; their pages are given back at once. In a forked child
// the parent's buffer stays as it is.
bool free_exported(void* memory);

// Whoever has mapped the pages of [address, address + bytes) reads and writes them no more; their content stays. False
// when memory for copies of them cannot be had.
bool take_back_exported(const void* address, std::size_t bytes);

// Whether none of the pages was taken back. For calls that ran meanwhile on other buffers of the same allocation.
bool is_still_exported(const void* address, std::size_t bytes);

// What [address, address + bytes) lies in.
std::optional<ExportedBuffer> find_exported(const void* address, std::size_t bytes);

// How often one was freed or pages were taken back: what peers mapped before may be gone.
std::uint64_t exported_changes();

// Maps another process's buffer. Throws system_error when that is not permitted, or when it is gone.
std::shared_ptr<Segment> map_exported(int process, const ExportedBuffer& buffer);

}  // namespace sccl::host
