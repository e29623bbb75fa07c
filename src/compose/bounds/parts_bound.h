// Lower bounds from several parts of a host at once, where one cut alone says too little.
//
// Parts are disjoint sets of a host's devices, each with the switches that make the bound best. Other devices and
// switches are free.
//
// Each part receives. Part i lacks d_i bytes at first and must have them at the end: they enter it. A link enters at
// most one part. So in time T the links into the parts, and the ways from the network to their devices, carry the sum
// of all d_i. Links that share their bandwidth (topology::SharedSet) carry together at most what the set does, in
// whichever direction each of them leads: T >= sum of d_i / (ways + sum over links outside of sets + sum over sets of
// the lesser of the set's rate and the sum of its links'). Without sets this is a mean of the bounds of single cuts,
// and says nothing new. With sets it does: two devices behind one set cannot both have the whole set. What leaves is
// bounded alike. A link is done with its latency before the end: that adds the mean latency of all these links.
//
// Sums pass between all parts. Let every device of a cluster of hosts alike belong to one of k parts of its host, k H
// parts of H hosts. In an AllReduce every part learns of every other part's contribution to each byte. With n parts
// that takes 2 (n - 1) transfers of the byte from part to part at least, whatever is added on the way (one-way gossip:
// n - 1 before the first part knows all, since each transfer joins at most two groups of parts that know of each
// other's data, and one more for each of the others). Each of these enters a part: T >= 2 (k H - 1) bytes / (what all
// links and ways into parts carry, sets as above).
#pragma once

#include <span>
#include <vector>

#include "compose/bounds/bound.h"
#include "compose/latency/late_data.h"

namespace sccl::compose {

// What must cross the border of a set of ranks: bytes per byte of L.
struct Demand {
  double in = 0;
  double out = 0;
};
Demand demand(Collective collective, double inside, double all, bool has_root);
// What the demand takes over so much in and out; 0 in a direction in which nothing can pass.
double us(const Demand& demand, double bytes, double in_gbytes_per_s, double out_gbytes_per_s);

// The best bound of each of the two kinds, where there is one; hosts of more than 8 devices or 10 nodes are left out.
// `late`: by host, when data of one root is there.
std::vector<Bound> bounds_of_parts(const topology::Topology& topology, const topology::Cluster& cluster,
                                   Collective collective, Rank root, double bytes, std::span<const LateData> late);

}  // namespace sccl::compose
