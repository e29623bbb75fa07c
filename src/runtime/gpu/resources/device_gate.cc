#include "runtime/gpu/resources/device_gate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace sccl::runtime {

DeviceGate& DeviceGate::of(const gpu::Device& device) {
  // Never destroyed: communicators may outlive static destruction.
  static auto* const mutex = new std::mutex;
  static auto* const gates = new std::map<std::pair<void*, int>, std::unique_ptr<DeviceGate>>;
  const std::lock_guard lock(*mutex);
  auto& gate = (*gates)[{device.context, device.ordinal}];
  if (!gate) gate = std::make_unique<DeviceGate>();
  return *gate;
}

void DeviceGate::add(const void* key, Idle idle) {
  const std::lock_guard lock(mutex_);
  members_.push_back({key, std::move(idle)});
}

void DeviceGate::remove(const void* key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(members_, [&](const Member& member) { return member.key == key; });
}

bool DeviceGate::when_quiet(const std::function<void()>& action) {
  const std::unique_lock launches(launches_, std::try_to_lock);
  if (!launches) return false;
  {
    const std::lock_guard lock(mutex_);
    if (!std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.idle(); }))
      return false;
  }
  action();
  return true;
}

}  // namespace sccl::runtime
