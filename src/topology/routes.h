// How data gets from one rank to another: over a direct link, else through switches.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

using Edge = std::pair<Node, Node>;

// Ranks never forward on the way; a schedule says so by a send of its own. Keeps a reference to the topology.
class Routes {
 public:
  explicit Routes(const Topology& topology);

  // The edges from `src` to `dst`: one where a direct link exists, else a shortest path whose inner nodes are switches,
  // over the network only where nothing else leads there (among equals over the lowest switch numbers). Empty when
  // there is none.
  std::span<const Edge> path(Rank src, Rank dst);

  bool connected(Rank src, Rank dst) { return !path(src, dst).empty(); }

 private:
  using Neighbours = std::vector<std::vector<Node>>;  // by node, ascending, each once

  // Over switches only, to every rank that is reached from `src` and not in `paths` yet.
  void through_switches(Rank src, const Neighbours& next, std::map<Rank, std::vector<Edge>>& paths) const;

  int ranks_;
  Neighbours next_;
  Neighbours next_on_host_;  // without links of class net
  std::vector<std::map<Rank, std::vector<Edge>>> switched_;  // by source rank; filled when first asked for
  std::vector<bool> filled_;
  Edge direct_;  // what path() returned last for a direct link
};

// Lanes of each edge over all parallel links.
std::map<Edge, int> edge_lanes(const Topology& topology);

}  // namespace sccl::topology
