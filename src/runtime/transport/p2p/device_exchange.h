// At init, ranks share their device memory and agree on the paths between their devices.
#pragma once

#include <array>
#include <span>

#include "base/deadline.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/settings/settings.h"
#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

// What a rank tells the others of its device.
struct DeviceRecord {
  std::uint8_t present = 0;
  std::uint8_t vendor = 0;
  std::uint8_t vmm = 0;
  std::int32_t multiprocessors = 0;
  std::int32_t most_blocks = 0;  // device_blocks.h
  gpu::UniqueDeviceId id{};
  std::array<char, 32> busid{};  // text; empty if not known
};

DeviceRecord record_of(const gpu::Device& device, int most_blocks);

// Throws invalid_usage when only some ranks have a device, or when the vendors differ.
bool all_have_devices(std::span<const DeviceRecord> records);

// Collective, with the same `settings` on all ranks. `host_of`: the host of each rank; ranks of other hosts get no
// memory here. Throws device_error when memory cannot be allocated or reached.
DeviceMembership share_device_memory(Rank rank, const gpu::Device& device, std::span<const DeviceRecord> records,
                                     std::span<const int> host_of, const Settings& settings, Bootstrap& bootstrap,
                                     Deadline deadline);

}  // namespace sccl::runtime
