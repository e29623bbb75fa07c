// Lower bounds that count, beside what the NICs of hosts carry, the time in which nothing useful can pass them: at the
// end too late for the devices behind them, at the beginning too early for what these are to add.
//
// One host. Let every device of a host receive every byte of some data from outside (AllGather, AllReduce, Broadcast).
// Take a device d, and for each byte the message that brought it to d over the border of the host. A message that
// passes the border by a link e at time x is at its first device, and from there at d, at x + latency(e, d) at the
// earliest. So of the time T, link e serves d for T - before(e) - latency(e, d) at most, where before(e) is the least
// latency from a device elsewhere to the link. The mean over all d: T is at least such that
//     sum over links of  rate x mean over d of max(0, T - before(e) - latency(e, d))  =  bytes.
// What every device contributes to every byte (AllReduce, ReduceScatter, Reduce) leaves a host alike, read backwards.
//
// All hosts, AllReduce. Take one device of each host, its delegate. The delegates' contributions make an AllReduce
// among the hosts, and each byte passes from host to host 2 (n - 1) times at least (parts_bound.h), even where only
// messages count without which the delegates' AllReduce would be the same. A message does not count that leaves a host
// before its delegate's contribution can be there and before anything can have come from another host, `between` after
// the beginning; nor one that can neither come to the target's delegate nor to one more host. So a message from port p
// to port q counts only from min(latency(a, p), between) on, until min(latency(q, b), between) before the end, with
// delegates a and b. The mean over all choices of delegates: T is at least such that
//     sum over links out of hosts of  rate x mean over a, b of max(0, T - way(e) - those two)  =  2 (n - 1) bytes.
// Ports q are not known for a link out of a host: for each part of the devices the nearest port of any host stands.
#pragma once

#include <vector>

#include "compose/bounds/bound.h"

namespace sccl::compose {

// `links`: those that may carry something. The best bound of each of the two kinds, where there is one. Hosts with
// equal links are examined once.
std::vector<Bound> bounds_with_latency(const topology::Topology& topology, const topology::Cluster& cluster,
                                       const std::vector<topology::Link>& links, Collective collective, Rank root,
                                       double bytes);

}  // namespace sccl::compose
