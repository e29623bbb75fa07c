// A cluster of hosts alike, seen as one host and the rest: the links of any of its hosts, and one more rank, `outside`,
// for the network and all other hosts.
//
// Hosts are alike if they have the same links between the same positions, the same ways to the network, and if devices
// at the same position hang on the same switch of the network. Then any permutation of the hosts is an automorphism of
// the topology, and devices at one position of two hosts reach each other over their own NICs alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/symmetry/cluster.h"
#include "topology/topology.h"

namespace sccl::treegen {

struct LikeHosts {
  topology::Topology one;                // ranks 0..devices-1 are a host's positions, rank `devices` is outside
  std::vector<std::vector<Rank>> ranks;  // by host, then position

  int hosts() const { return static_cast<int>(ranks.size()); }
  int devices() const { return one.ranks - 1; }
  Rank outside() const { return one.ranks - 1; }
};

// Nothing for a single host or if hosts differ; `why` then names a host and the difference.
std::optional<LikeHosts> like_hosts(const topology::Topology& topology, std::string& why);

}  // namespace sccl::treegen
