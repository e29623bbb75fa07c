// A level for hosts whose NICs together bring more than the host's links can pass on: part of the data enters such a
// host at several devices (compose::HostKind, entries), so that NICs and links are equally busy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "portfolio/host/host_level.h"

namespace sccl::portfolio {

// Whether a link's time goes to AllGather or ReduceScatter alone, or to both at once (AllReduce).
enum class Halves : std::uint8_t { apart, together };

// Whether trees of a packing may be taken: they load links best, and are deep.
enum class Packings : std::uint8_t { no, yes };

// For hosts of one kind with a NIC for every device, whose rates may differ; every device is the port of the same share
// of all data as its NIC has of the NICs' rates. `home` is the part of the data that is spread from a device of the
// host itself. Mixes chunks that enter at one device, at one device of each part that the faster links join, and at
// every device, in the proportion whose busiest link or NIC is the least busy; or takes the best packing of trees from
// outside (treegen/clusters/entry_packing.h), if that is better. Nothing if that is no better than the best of `plain`,
// which must not be empty.
std::optional<HostLevel> level_with_entries(const topology::Topology& links, const std::vector<HostLevel>& plain,
                                            std::span<const double> nic_gbytes_per_s, double home, Halves halves,
                                            Packings packings);

}  // namespace sccl::portfolio
