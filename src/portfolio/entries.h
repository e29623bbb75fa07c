// A level for hosts whose NICs together bring more than the host's links can pass on: part of the data enters such a
// host at several devices (compose::HostKind, entries), so that NICs and links are equally busy.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "portfolio/host_level.h"

namespace sccl::portfolio {

// For hosts of one kind with one NIC for every device. `home` is the part of the data that is spread from a device of
// the host itself. Mixes chunks that enter at one device, at one device of each part that the faster links join, and at
// every device, in the proportion whose busiest link or NIC is the least busy. Nothing if that is no better than the
// best of `plain`, which must not be empty.
std::optional<HostLevel> level_with_entries(const topology::Topology& links, const std::vector<HostLevel>& plain,
                                            std::span<const double> nic_gbytes_per_s, double home);

}  // namespace sccl::portfolio
