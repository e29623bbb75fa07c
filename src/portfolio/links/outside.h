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

}  // namespace sccl::portfolio
