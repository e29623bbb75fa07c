// Everything that kernels of a communicator use, in one piece: graphs that were captured from it keep it alive.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "kernels/instantiate/device_kernels.h"
#include "platform/gpu/memory.h"
#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

class DeviceResources {
 public:
  DeviceResources(const DeviceMembership& membership, Rank rank);

  const DeviceMembership& membership() const { return membership_; }
  DeviceKernels& kernels() { return *kernels_; }

  // The device's words, which the host reads and writes while kernels run.
  device::gpu::HostWords& words() { return own().words->kernels; }
  device::gpu::HostWords* device_words() const { return at<device::gpu::HostWords>(words_address_); }
  device::gpu::Control* control() const { return at<device::gpu::Control>(own().memory->address()); }
  device::gpu::Control* const* peer_controls() const { return at<device::gpu::Control* const>(controls_->address()); }
  device::gpu::DeviceConnection* connections() const {
    return at<device::gpu::DeviceConnection>(connections_->address());
  }
  device::u32 connections_per_channel() const { return connections_per_channel_; }

  // Memory that kernels leave as they find it; it grows, and what a captured kernel may use stays.
  device::LaneState* lanes(std::size_t count);
  device::u8* bounce(std::size_t bytes) { return grown(bounce_, bytes); }
  device::u8* scratch(std::size_t bytes) { return grown(scratch_, bytes); }

  // Counters of signals on the device: sent to and used up from a rank.
  device::u64* sent(Rank peer, int signal, int context) const { return counter(0, peer, signal, context); }
  device::u64* used(Rank peer, int signal, int context) const { return counter(1, peer, signal, context); }

  // What kernels may use lives until nobody else holds it when drop_unused() is called: while no kernel runs.
  void hold(std::shared_ptr<void> memory) { held_.push_back(std::move(memory)); }
  void drop_unused() {
    std::erase_if(held_, [](const std::shared_ptr<void>& memory) { return memory.use_count() == 1; });
  }

  // A copy on the device, for as long as this lives.
  gpu::Address keep(std::span<const std::byte> data);

  // Mapped host memory of one call; free again once `finished_sequence` has reached the sequence it was lent to. Zero:
  // for a call that may be replayed, never.
  std::byte* lend(std::size_t bytes, device::u64 sequence, gpu::Address& address);

  // Destroys what graphs have let go of, which their callbacks must not do.
  static void reap();
  static void bury(std::shared_ptr<DeviceResources> resources);

 private:
  struct Package {
    std::unique_ptr<gpu::MappedMemory> memory;
    device::u64 sequence;
  };

  template <typename T>
  static T* at(gpu::Address address) {
    return reinterpret_cast<T*>(address);
  }
  const DevicePeer& own() const { return membership_.peers[static_cast<std::size_t>(rank_)]; }
  void connect();
  device::u64* counter(int which, Rank peer, int signal, int context) const;
  device::u8* grown(std::shared_ptr<gpu::DeviceMemory>& memory, std::size_t bytes);
  std::shared_ptr<gpu::DeviceMemory> allocate(std::size_t bytes);

  DeviceMembership membership_;
  Rank rank_;
  gpu::Device private_device_;  // what is not shared needs no descriptors
  std::shared_ptr<DeviceKernels> kernels_;
  gpu::PinnedMemory pinned_words_;
  gpu::Address words_address_;
  std::shared_ptr<gpu::DeviceMemory> controls_;
  std::shared_ptr<gpu::DeviceMemory> connections_;
  device::u32 connections_per_channel_ = 0;
  std::shared_ptr<gpu::DeviceMemory> counters_;
  std::vector<std::shared_ptr<void>> held_;
  std::shared_ptr<gpu::DeviceMemory> lanes_;
  std::shared_ptr<gpu::DeviceMemory> bounce_;
  std::shared_ptr<gpu::DeviceMemory> scratch_;
  std::vector<std::shared_ptr<gpu::DeviceMemory>> outgrown_;
  std::vector<std::shared_ptr<gpu::DeviceMemory>> kept_;
  std::size_t kept_bytes_ = 0;  // of the last of them
  std::deque<Package> packages_;
};

}  // namespace sccl::runtime
