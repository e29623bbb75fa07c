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

// Hops from a rank to every rank. Ranks forward; switches on the path do not count. -1: out of reach.
std::vector<int> hops_from(const Topology& topology, Rank src);

// The most hops between two ranks. A collective in which every rank needs data of every rank takes at least as many
// steps (SCCL's a_l). Nothing when some rank does not reach another.
std::optional<int> diameter(const Topology& topology);

struct Cut {
  int lanes = 0;                  // sum over the links out of the source side
  std::vector<Node> source_side;  // ascending
};

// The most lanes that can be used at once from `src` to `dst` over any paths, and a minimum cut. Ignores shared sets.
Cut max_flow(const Topology& topology, Node src, Node dst);

// SCCL's b_l: every schedule of this collective takes at least as many rounds per chunk, R/C, with C as in schedule
// files. The bound is the greatest ratio of chunks that must cross a cut to lanes of the cut. Small topologies: over
// all cuts, with shared sets. Larger ones: over minimum cuts, without shared sets (alltoall: over single ranks, and by
// the total length of all paths). Nothing when the links do not lead everywhere the data must go.
std::optional<Ratio> inverse_bisection_bound(const Topology& topology, Collective collective, Rank root = 0);

}  // namespace sccl::topology
