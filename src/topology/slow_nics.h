// NICs that are there for other purposes than a job's data, as for management.
#pragma once

#include "topology/topology.h"

namespace sccl::topology {

// A device leaves its host by the NIC with the shortest way. That may be a slow one at the device itself, while a fast
// one is behind a switch. So slow NICs are left out: links between a host and a network, in both directions.
//
// Slow is a NIC with less than a quarter of the rate at which every device of its host reaches, over switches, some
// network that joins all hosts, and with less than a device's share of what the host's other NICs carry. (By the second
// a host keeps eight NICs of 5 GB/s beside one of 25: all its devices through that one were slower.) A device without
// such a way does not count. A network keeps its slow NICs unless it loses, or keeps, all of its hosts.
//
// So every device that had a way to a network that joins all hosts still has one. Returns how many links, both
// directions as one, were left out. O(n log n) for n links.
int leave_out_slow_nics(Topology& topology);

}  // namespace sccl::topology
