// Whether all that a composite sends between hosts has a path, where there are several networks (rails without a switch
// above them): a chunk must enter each host on the network by which it left the host before.
//
// The ports of one turn lie on the same network on all hosts, and the turns of all hosts have the same period. So it
// suffices to look at the ports that a chunk takes for another reason than its turn: those near its source or its sink,
// and the exits and returns of the root's host. This takes time linear in the ports and the root host's chunks.
#pragma once

#include <string>

#include "compose/form/composite.h"

namespace sccl::compose {

// What is wrong, as part of a sentence; empty if nothing is, or all NICs reach each other. The rest of the composite
// must be right (compose/proof/verify.h).
std::string fault_between_networks(const Composite& composite, const topology::Cluster& cluster);

}  // namespace sccl::compose
