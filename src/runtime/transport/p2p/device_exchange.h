// How ranks come to see one another's device memory at init.
#pragma once

#include <array>
#include <span>

#include "base/deadline.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/settings/settings.h"
#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

// What a rank tells of its device.
struct DeviceRecord {
  std::uint8_t present = 0;
  std::uint8_t vendor = 0;
  std::uint8_t vmm = 0;
  std::int32_t multiprocessors = 0;
  std::int32_t most_blocks = 0;  // device_blocks.h
  gpu::UniqueDeviceId id{};
  std::array<char, 32> busid{};  // text; empty where it is not known
};

DeviceRecord record_of(const gpu::Device& device, int most_blocks);

// Throws invalid_usage when some have and others have not, or when the vendors differ.
bool all_have_devices(std::span<const DeviceRecord> records);

// All ranks call it in step, with the same `settings`. Throws device_error when memory cannot be had or reached.
DeviceMembership share_device_memory(Rank rank, const gpu::Device& device, std::span<const DeviceRecord> records,
                                     const Settings& settings, Bootstrap& bootstrap, Deadline deadline);

}  // namespace sccl::runtime
