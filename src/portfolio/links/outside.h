// A host as its packings see it: its links, and a rank `outside` that stands for all other hosts.
#pragma once

#include <span>

#include "topology/topology.h"

namespace sccl::portfolio {

// `outside` has the number after the host's devices; switches follow. Every device has a way there and back of
// `nic_gbytes_per_s`, or of its own rate, where 0 is no way. Lanes are of equal rate: a hundredth of the slowest
// link's.
topology::Topology with_outside(const topology::Topology& links, double nic_gbytes_per_s);
topology::Topology with_outside(const topology::Topology& links, std::span<const double> nic_gbytes_per_s);
// `last_nodes`: by device the last node of the host on its way to its NIC, itself or a switch: from there to `outside`
// devices share what their NICs have together.
topology::Topology with_outside(const topology::Topology& links, std::span<const double> nic_gbytes_per_s,
                                std::span<const topology::Node> last_nodes);

}  // namespace sccl::portfolio
