// Everything that kernels of a communicator use, in one object: graphs that captured such kernels keep it alive.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "kernels/instantiate/device_kernels.h"
#include "platform/gpu/memory.h"
#include "runtime/gpu/resources/call_packages.h"
#include "runtime/gpu/resources/kernel_tables.h"
#include "runtime/gpu/resources/working_memory.h"
#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

class DeviceResources {
 public:
  DeviceResources(const DeviceMembership& membership, Rank rank);

  const DeviceMembership& membership() const { return membership_; }
  DeviceKernels& kernels() { return *kernels_; }
  const KernelTables& tables() const { return tables_; }
  WorkingMemory& working() { return working_; }
  CallPackages& packages() { return packages_; }

  // The words through which the host and running kernels tell each other about calls.
  device::gpu::HostWords& words() { return own().words->kernels; }
  device::gpu::HostWords* device_words() const { return reinterpret_cast<device::gpu::HostWords*>(words_address_); }
  device::gpu::Control* control() const { return reinterpret_cast<device::gpu::Control*>(own().memory->address()); }

  // Whether the kernel of this number has ended.
  bool has_finished(device::u64 sequence) const { return own().words->finished() >= sequence; }

  // Keeps memory that kernels may use. drop_unused() releases memory that nothing else holds; legal only while no
  // kernel runs.
  void hold(std::shared_ptr<void> memory) { held_.push_back(std::move(memory)); }
  void drop_unused() {
    std::erase_if(held_, [](const std::shared_ptr<void>& memory) { return memory.use_count() == 1; });
  }

  // bury() keeps resources until reap() can destroy them: callbacks of graphs must not destroy them, and freeing waits
  // for all work in the context (device_gate.h). Any thread may call reap() at any time.
  static void bury(std::shared_ptr<DeviceResources> resources);
  static void reap();

 private:
  const DevicePeer& own() const { return membership_.peers[static_cast<std::size_t>(rank_)]; }

  DeviceMembership membership_;  // keeps the words
  Rank rank_;
  std::shared_ptr<DeviceKernels> kernels_;
  gpu::PinnedMemory pinned_words_;
  gpu::Address words_address_;
  KernelTables tables_;
  WorkingMemory working_;
  CallPackages packages_;
  std::vector<std::shared_ptr<void>> held_;
};

// Buries the resources when it is destroyed.
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
