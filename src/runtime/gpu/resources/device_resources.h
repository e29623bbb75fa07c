// Everything that kernels of a communicator use, in one piece: graphs that were captured from it keep it alive.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
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

  // Memory that kernels leave as they find it, set aside when the communicator is made. Where a call needs more it is
  // allocated then, which may wait for all that runs on the device, and what a captured kernel may use stays.
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

  // Device memory for as long as this lives, for the caller to fill.
  gpu::Address keep(std::size_t bytes);

  // Whether the kernel of this number has ended.
  bool has_finished(device::u64 sequence) const;

  // Mapped host memory of one call; free again once `finished_sequence` has reached the sequence it was lent to. Zero:
  // for a call that may be replayed, never. Allocates where none is free.
  bool can_lend(std::size_t bytes) const;
  // Whether a kernel up to this one gives back what would do.
  bool returns_after(std::size_t bytes, device::u64 last_sequence) const;
  std::byte* lend(std::size_t bytes, device::u64 sequence, gpu::Address& address);

  // Keeps what is to be destroyed until reap() can do so: callbacks of graphs must not, and freeing waits for all that
  // runs in the context (device_gate.h). reap() is for any thread, any time.
  static void bury(std::shared_ptr<DeviceResources> resources);
  static void reap();

 private:
  struct Package {
    std::byte* data;
    gpu::Address address;
    std::size_t bytes;
    std::optional<device::u64> lent_to;
  };
  // Of one use. What it was before it grew is kept with it.
  struct Region {
    gpu::Address begin = 0;
    std::size_t bytes = 0;
  };

  template <typename T>
  static T* at(gpu::Address address) {
    return reinterpret_cast<T*>(address);
  }
  const DevicePeer& own() const { return membership_.peers[static_cast<std::size_t>(rank_)]; }
  void connect();
  void set_aside();
  bool is_free(const Package& package) const;
  void add_packages(std::size_t count, std::size_t bytes);
  device::u64* counter(int which, Rank peer, int signal, int context) const;
  device::u8* grown(Region& region, std::size_t bytes);
  const gpu::DeviceMemory& grow(Region& region, std::size_t bytes);
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
  std::vector<std::shared_ptr<gpu::DeviceMemory>> memories_;  // behind the regions
  Region lanes_;
  Region bounce_;
  Region scratch_;
  Region kept_;
  std::size_t kept_bytes_ = 0;  // of it
  std::vector<std::unique_ptr<gpu::MappedMemory>> package_memories_;
  std::vector<Package> packages_;
};

// Buries the resources when nobody here uses them any more.
class HeldResources {
 public:
  explicit HeldResources(std::shared_ptr<DeviceResources> resources) : resources_(std::move(resources)) {}
  ~HeldResources() { DeviceResources::bury(std::move(resources_)); }
  HeldResources(const HeldResources&) = delete;
  HeldResources& operator=(const HeldResources&) = delete;

  DeviceResources& operator*() const { return *resources_; }
  DeviceResources* operator->() const { return resources_.get(); }
  const std::shared_ptr<DeviceResources>& shared() const { return resources_; }

 private:
  std::shared_ptr<DeviceResources> resources_;
};

}  // namespace sccl::runtime
