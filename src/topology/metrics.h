// Figures that bound every schedule on a topology from below: distances, flows and cuts, all in lanes.
#pragma once

#include <boost/rational.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

using Ratio = boost::rational<std::int64_t>;

// Hops from a rank to every rank, over ranks that forward; switches on the way do not count. -1: out of reach.
std::vector<int> hops_from(const Topology& topology, Rank src);

// Most hops between two ranks: the fewest steps of a collective in which all hear of all (SCCL's a_l). Nothing when
// some rank does not reach another.
std::optional<int> diameter(const Topology& topology);

struct Cut {
  int lanes = 0;                  // that lead out of the source side
  std::vector<Node> source_side;  // ascending
};

// Most lanes that can be used at once from `src` to `dst` over any paths, and a cut that forbids more. Sets of shared
// links are not looked at.
Cut max_flow(const Topology& topology, Node src, Node dst);

// SCCL's b_l: no schedule of this collective has fewer rounds per chunk, R/C, with C as in schedule files. The greatest
// ratio of what must cross a cut to its lanes: over all cuts, with shared sets, for small topologies; else over minimum
// cuts without them (alltoall: over single ranks, and by the total length of all ways). Nothing when the links do not
// lead everywhere the data must go.
std::optional<Ratio> inverse_bisection_bound(const Topology& topology, Collective collective, Rank root = 0);

}  // namespace sccl::topology
