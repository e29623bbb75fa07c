#include "runtime/gpu/resources/device_resources.h"

#include <mutex>

#include "runtime/gpu/resources/device_gate.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {
namespace {

struct DeferredFree {
  std::mutex mutex;
  std::vector<std::shared_ptr<DeviceResources>> buried;
};

// Never destroyed, and needs no memory: communicators end without any, too.
DeferredFree& deferred_free() {
  union Kept {
    constexpr Kept() : instance{} {}
    ~Kept() {}
    DeferredFree instance;
  };
  static constinit Kept kept;
  return kept.instance;
}

}  // namespace

DeviceResources::DeviceResources(const DeviceMembership& membership, Rank rank)
    : membership_(membership),
      rank_(rank),
      kernels_(DeviceKernels::of(membership.device)),
      pinned_words_(membership.device, own().words.get(), MemoryLayout::kDevicePageBytes),
      words_address_(pinned_words_.address_for(membership.device)),
      tables_(membership_, rank),
      working_(membership_),
      packages_(membership_.device, *own().words) {}

void DeviceResources::bury(std::shared_ptr<DeviceResources> resources) {
  DeferredFree& all = deferred_free();
  const std::lock_guard lock(all.mutex);
  all.buried.push_back(std::move(resources));
}

void DeviceResources::reap() {
  // One thread at a time: a thread that finds other communicators' work in flight puts all resources back before the
  // threads of those communicators reap.
  static constinit std::mutex turn;
  const std::lock_guard reaping(turn);
  std::vector<std::shared_ptr<DeviceResources>> dead;
  {
    DeferredFree& all = deferred_free();
    const std::lock_guard lock(all.mutex);
    dead.swap(all.buried);
  }
  for (std::shared_ptr<DeviceResources>& one : dead) {
    const gpu::Device device = one->membership().device;
    if (!DeviceGate::of(device).when_quiet([&] { one.reset(); })) bury(std::move(one));
  }
}

}  // namespace sccl::runtime
