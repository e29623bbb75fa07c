// sccl pack on a cluster of hosts alike: the trees that reach the best rate, by symmetry of the hosts.
#pragma once

#include <string>

#include "treegen/clusters/cluster_packing.h"

namespace sccl::tools {

struct PackClusterArguments {
  Collective collective = Collective::allgather;
  Rank root = 0;
  treegen::PackOptions options;
  std::string out;  // a file for the flat schedule; empty: none
  bool as_json = false;
  bool only_proved = false;  // print nothing unless the rate is the optimum
};

// Prints all trees of up to kMostListedRanks ranks; of more, one tree for each position of a host, with the number of
// hosts by which it is turned. False if nothing was printed. Throws invalid_argument when `out` is asked for and the
// flat schedule would be too long.
inline constexpr int kMostListedRanks = 128;
bool pack_cluster(const topology::Topology& topology, const treegen::LikeHosts& hosts,
                  const PackClusterArguments& arguments);

}  // namespace sccl::tools
