// Switches that are alike for all devices: two NICs of one PCIe switch with one network, spine switches, and whole
// networks, if each host has as many NICs at each of them.
#pragma once

#include "topology/topology.h"

namespace sccl::topology {

// The first of such switches takes the links of all; the others stay as switches without links, so that nodes keep
// their numbers. A path leads over one switch, the first of those that are alike: all devices would use the same NIC,
// and the others would have nothing to do.
//
// Alike are switches with a link of class net whose links are in no shared set, if they have as many links of each
// rate and latency to each device, to each other switch, and to each class of switches that are alike (the coarsest
// equitable partition). So each way over the switches that are left is a way over those that are alike with one of
// them, and as much can pass them together if it is spread evenly. Links between switches that are alike go.
//
// Afterwards no two switches are alike. Takes O(n log n) for n links, a few times.
void join_twin_switches(Topology& topology);

}  // namespace sccl::topology
