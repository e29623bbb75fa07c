// Memory of a device that other ranks map too, and host memory that the device sees.
#pragma once

#include <memory>

#include "base/fd.h"
#include "platform/gpu/device.h"

namespace sccl::gpu {

// How memory gets to another process.
struct Ticket {
  IpcHandle ipc{};
  std::uint64_t bytes = 0;
  bool descriptor = false;  // it travels as a file descriptor, not as `ipc`
};

// Kernels of `user` may use the memory that `owner`, a device of this process, allocates by plain calls. Throws
// device_error when the driver refuses.
void enable_peer_access(const Device& user, const Device& owner);

// A ticket for memory that the program has allocated around `address`, which lies `offset` bytes behind its begin.
// Throws device_error for what no other process can map.
Ticket ticket_for(const Device& device, Address address, std::size_t& offset);

// What memory is for. Messages pass between kernels that run: on AMD's devices memory of the usual kind
// (coarse-grained) need not show a running kernel what others write into it.
enum class MemoryUse : std::uint8_t { data, messages };

class DeviceMemory {
 public:
  // Filled with zeros.
  static std::shared_ptr<DeviceMemory> allocate(const Device& device, std::size_t bytes,
                                                MemoryUse use = MemoryUse::data);
  // What another process's ticket is for.
  static std::shared_ptr<DeviceMemory> map(const Device& device, const Ticket& ticket,
                                           const FileDescriptor& descriptor);

  // Gives the memory back; the device's work on it must have ended.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Address address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  const Device& device() const { return device_; }

  // For other processes; `descriptor` is filled when the ticket asks for one.
  Ticket ticket(FileDescriptor& descriptor) const;
  // Lets another device of this process use it. Throws device_error when the driver refuses.
  void admit(const Device& device) const;

  // Host to device and back, complete on return; on a stream of its own, so that they may stand beside captures.
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
  std::uint64_t handle_ = 0;  // of virtual memory
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

// Host memory that somebody else has made, pinned and mapped for all devices of this process while this lives.
class PinnedMemory {
 public:
  // `data` begins a page. Throws device_error where the driver refuses.
  PinnedMemory(const Device& device, void* data, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Where kernels of this device, or of another one of this process, find it.
  Address address_for(const Device& device) const;

 private:
  Device device_;
  void* data_;
};

}  // namespace sccl::gpu
