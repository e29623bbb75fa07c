// How late the data of one root is on other hosts.
//
// Take a Broadcast, a host h, and a border around the devices, switches and NICs of every host. Nothing is within the
// border of h before `direct_us`: the least latencies from the root's host to the network and from there to a device of
// h. Nearly all of what h needs is even later. A message that comes over a third host takes `between` longer, the least
// of what any host takes in and out again. One that comes from the root's host at once leaves that host later than it
// could by `between`, and is then as late; or it leaves that host in the first `between` of the time in which messages
// can. What leaves then is no more than the links over that border carry, and each of its messages goes to one host. So
// of m hosts whose links are alike one gets no more than 1/m of it: `early_bytes`. All other bytes that this host gets
// are within its border `relayed_us` after the beginning at the earliest. Hosts are alike if nothing that a bound of
// one host counts tells them apart; then the bound holds with these bytes taken away.
//
// Clusters in which a link joins two hosts without a switch have direct_us alone. A Reduce is read backwards.
#pragma once

#include <vector>

#include "topology/symmetry/cluster.h"

namespace sccl::compose {

// The least latencies between a host's devices and the network, in microseconds; infinite where no way is.
struct WayToNetwork {
  double out_us = 0;
  double in_us = 0;
};

// `links`: those that may carry something. `side`: by node, the host within whose border it is, or -1.
std::vector<WayToNetwork> ways_to_network(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                          const std::vector<int>& side);

// Of one host; all zero at the root's host.
struct LateData {
  double direct_us = 0;
  double relayed_us = 0;
  double early_bytes = 0;
  double between_us = 0;  // what messages over a third host take longer; 0: they are not known to

  // The least time of a cut of the host that takes `us` for `bytes` of the root.
  double time_us(double us, double bytes) const;
};

// By host, of Broadcast and Reduce; of other collectives all zero.
std::vector<LateData> late_data(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                const std::vector<int>& side, Collective collective, Rank root);

}  // namespace sccl::compose
