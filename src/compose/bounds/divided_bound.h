// A lower bound for sums and copies that pass between parts of a cluster, where some hosts are one part and others are
// several.
//
// Every rank belongs to one of n parts. In an AllReduce every byte passes from part to part 2 (n - 1) times at least
// (compose/bounds/parts_bound.h); in a Broadcast it enters, and in a Reduce it leaves, n - 1 parts. Each of these
// passes leaves a part: T >= 2 (n - 1) bytes / (what all links out of parts carry). A host with fast links beside its
// NICs counts best as one part, one with slow links as many. So each host is whole, or parted into ranks, or into what
// its links of at least some rate join. What hosts add to n and to the rate is independent of one another, so that the
// best parts are found by Dinkelbach's method.
#pragma once

#include <vector>

#include "compose/bounds/bound.h"

namespace sccl::compose {

// `host_gbytes_per_s`: by host, what leaves it as a whole. `links`: those that may carry something. No bound of 0 us,
// and none for one host. O(links x different rates of a host's links).
std::vector<Bound> bounds_of_divided_hosts(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                           const std::vector<double>& host_gbytes_per_s, Collective collective,
                                           double bytes);

}  // namespace sccl::compose
