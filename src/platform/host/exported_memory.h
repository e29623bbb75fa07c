// Buffers that other processes can map: the host memory that ncclMemAlloc returns. Each is an anonymous memfd whose
// descriptor stays open, so that a process of the same user can map it through /proc; no descriptor is passed.
//
// A process that has mapped a buffer can write into it as long as the mapping exists, and a stopped process cannot be
// asked to unmap it. So the owner can take pages back: it maps the same file at the same addresses again, this time
// private, and touches every page. The kernel then copies each page once, at the first touch by any thread:
//
//   shared mapping of the file      private mapping of the file      own pages
//   all see every store              stores copy the page first       peers keep the file's pages
//
// No store of this process is lost, not even a store of another thread beside the range: earlier stores are in the
// file's page, which is copied; later stores go to the copy. A buffer with pages taken back is no longer offered to
// peers.
//
// A forked child inherits all mappings, but the file's pages are its parent's. In the child the mappings become
// private, like all other memory, so that no other process sees the child's stores. Pages that the child has not stored
// to still show the parent's stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "platform/host/segment.h"

namespace sccl::host {

// More bytes than a process can address.
inline constexpr std::size_t kMostAddressableBytes = std::size_t{1} << 48;

// Names a buffer to other processes of this host.
struct ExportedBuffer {
  std::uint64_t inode = 0;  // distinguishes this file from an earlier one with the same descriptor
  std::uint64_t begin = 0;  // address in the owner's process
  std::uint64_t bytes = 0;
  int descriptor = -1;

  bool holds(const void* address, std::size_t size) const {
    const std::uint64_t offset = reinterpret_cast<std::uint64_t>(address) - begin;
    return offset <= bytes && size <= bytes - offset;
  }
};

// Zero-filled whole pages; null if there is no descriptor or memory left.
void* allocate_exported(std::size_t bytes);

// False when `memory` is no exported buffer. Peers that have mapped it read zeros afterwards, and its pages are freed
// at once. In a forked child the parent's buffer stays unchanged.
bool free_exported(void* memory);

// Afterwards the processes that have mapped the pages of [address, address + bytes) no longer read or write this
// process's pages; their content stays. False when there is no memory for the copies.
bool take_back_exported(const void* address, std::size_t bytes);

// Whether none of the pages was taken back. Needed by calls that were in flight on other buffers of the same
// allocation.
bool is_still_exported(const void* address, std::size_t bytes);

// The buffer that contains [address, address + bytes).
std::optional<ExportedBuffer> find_exported(const void* address, std::size_t bytes);

// How often a buffer was freed or pages were taken back. After a change, mappings made by peers may be out of date.
std::uint64_t exported_changes();

// Maps another process's buffer. Throws system_error when that is not permitted, or when the buffer is gone.
std::shared_ptr<Segment> map_exported(int process, const ExportedBuffer& buffer);

}  // namespace sccl::host
