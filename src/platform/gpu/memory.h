// Device memory that other ranks map, too, and host memory that a device sees.
#pragma once

#include <memory>

#include "base/fd.h"
#include "platform/gpu/device.h"

namespace sccl::gpu {

// What another process needs to map memory.
struct Ticket {
  IpcHandle ipc{};
  std::uint64_t bytes = 0;
  bool descriptor = false;  // the memory is passed as a file descriptor instead of `ipc`
};

// Lets kernels of `user` access plain allocations of `owner`, a device of this process. Throws device_error when the
// driver refuses.
void enable_peer_access(const Device& user, const Device& owner);

// Whether the device may use the memory of this process at this address, as far as its driver tells. Memory of
// cuMemAlloc is open to every device with access to its own one; memory of cuMemCreate and of pools to those that its
// program named.
bool is_open_to(const Device& device, Address address);

// Whether the memory is a mapped handle (cuMemCreate, ncclMemAlloc), as far as the driver tells; else true.
bool is_virtual_memory(const Device& device, Address address);

// A ticket for the program's allocation that contains `address`; `offset` becomes the distance of `address` from the
// allocation's begin. Throws device_error for memory that no other process can map.
Ticket ticket_for(const Device& device, Address address, std::size_t& offset);

// The use of memory. Messages pass between running kernels. On AMD's devices a running kernel may not see what others
// write into usual (coarse-grained) memory. Network adapters reach plain allocations, and virtual memory on few
// machines.
enum class MemoryUse : std::uint8_t { data, messages, network };

class DeviceMemory {
 public:
  // Filled with zeros.
  static std::shared_ptr<DeviceMemory> allocate(const Device& device, std::size_t bytes,
                                                MemoryUse use = MemoryUse::data);
  // Maps the memory of another process's ticket.
  static std::shared_ptr<DeviceMemory> map(const Device& device, const Ticket& ticket,
                                           const FileDescriptor& descriptor);

  // Frees the memory; the device must have finished all work on it.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Address address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  const Device& device() const { return device_; }

  // A ticket for other processes; `descriptor` is filled when the ticket needs one.
  Ticket ticket(FileDescriptor& descriptor) const;
  // Lets another device of this process use the memory. Throws device_error when the driver refuses.
  void admit(const Device& device) const;

  // A DMA-BUF descriptor of all of a plain allocation, for network adapters; invalid where the driver gives none.
  FileDescriptor dmabuf() const;

  // Copies between host and device, complete on return. They use a stream of their own, so that they may run during a
  // capture.
  void write(std::size_t offset, const void* data, std::size_t bytes) const;
  void read(std::size_t offset, void* data, std::size_t bytes) const;

 private:
  enum class Kind : std::uint8_t { plain, virtual_memory, ipc };
  DeviceMemory(const Device& device, Kind kind) : device_(device), kind_(kind) {}
  void map_handle(std::size_t bytes);
  void allocate_plainly(std::size_t bytes, MemoryUse use);
  void set_access(const Device& device) const;

  Device device_;
  Kind kind_;
  Address address_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t handle_ = 0;  // virtual memory only
};

// Zero-filled host memory, at `device_address()` for the device.
class MappedMemory {
 public:
  MappedMemory(const Device& device, std::size_t bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* data() const { return data_; }
  Address device_address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device device_;
  std::byte* data_ = nullptr;
  Address address_ = 0;
  std::size_t bytes_ = 0;
};

// Host memory that was allocated elsewhere; pinned and mapped for all devices of this process while this object lives.
class PinnedMemory {
 public:
  // `data` must begin a page. Throws device_error when the driver refuses.
  PinnedMemory(const Device& device, void* data, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // The address of the memory for kernels of this device, or of another device of this process.
  Address address_for(const Device& device) const;

 private:
  Device device_;
  void* data_;
};

}  // namespace sccl::gpu
