// A lower bound for sums and copies that pass between parts of a cluster, where some hosts are one part and others are
// several.
//
// Every rank belongs to one of n parts. In an AllReduce every byte passes from part to part 2 (n - 1) times at least
// (compose/bounds/parts_bound.h); in a Broadcast it enters, and in a Reduce it leaves, n - 1 parts. T >= 2 (n - 1)
// bytes / (what can pass from part to part). That is what links between parts of a host carry, and what passes over the
// network: no more than leaves all parts, than enters them, or, with one part p left out, than leaves and enters the
// others, since each pass begins or ends elsewhere than in p. The last one counts where one host has better NICs than
// all others together.
//
// Or one host is divided, and all others are one part: then what passes over the network leaves that host or enters it.
//
// A host with fast links beside its NICs counts best as one part, one with slow links as many. So each host is whole,
// or parted into ranks, or into what its links of at least some rate join. What hosts add to n and to the rate is
// independent of one another, so that the best parts are found by Dinkelbach's method.
#pragma once

#include <vector>

#include "compose/bounds/bound.h"

namespace sccl::compose {

// What passes a host as a whole.
struct HostRates {
  double out_gbytes_per_s = 0;
  double in_gbytes_per_s = 0;
};

// `links`: those that may carry something. At most one for each of the two ways to divide. Nothing for one host, nor
// where hosts as a whole, and what leaves them, give the best bound. O(links x different rates of a host's links).
std::vector<Bound> bounds_of_divided_hosts(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                           const std::vector<HostRates>& hosts, Collective collective, double bytes);

}  // namespace sccl::compose
