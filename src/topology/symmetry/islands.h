// Islands: parts of a host that reach the network by NICs of their own, and have links to one another between switches
// alone, as devices at two sockets. Data that every device gets comes to each island by its own NICs as fast as the
// devices take it, and no link between islands, which mostly is the slowest of the host, has to carry any.
#pragma once

#include <optional>

#include "topology/symmetry/cluster.h"

namespace sccl::topology {

// The topology without the links between islands: there its cluster has an island for each host. Devices keep all their
// links. Nothing if no host has islands: parts that each get from their NICs most of what a device can take, or, where
// that is less, most of what the whole host gets. Links between switches that no device uses on its way to the network
// may be left out; if islands without all these would be too small, those between CPUs. Linear in the links.
std::optional<Topology> split_into_islands(const Topology& topology, const Cluster& cluster);

}  // namespace sccl::topology
