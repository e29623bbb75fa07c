// Paths from one rank to another: over a direct link, else through switches.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

using Edge = std::pair<Node, Node>;

// Of two equally short ways the one whose slowest link is more than so many times as fast is taken. Else the order of
// switches decides: of NICs of about equal rates all hosts use the one at the same switch of the network.
inline constexpr double kClearlyFaster = 1.9;

// Ranks never forward within a path; in a schedule, forwarding is a send of its own. The memory for a source grows only
// with the number of switches, so thousands of ranks on one switch cost little.
class Routes {
 public:
  explicit Routes(const Topology& topology);

  // The edges from `src` to `dst`: a direct link if there is one, else a shortest path whose inner nodes are switches.
  // The path uses the network only if no other path exists; among equally short paths one whose slowest link is clearly
  // faster wins, then the lowest switch numbers. Empty when there is no path. Valid until the next call.
  std::span<const Edge> path(Rank src, Rank dst);

  bool connected(Rank src, Rank dst) { return !path(src, dst).empty(); }

 private:
  struct Next {
    Node node = -1;
    double gbytes_per_s = 0;  // of all links together
  };
  using Neighbours = std::vector<std::vector<Next>>;  // by node, ascending, each once

  // The links a search may use.
  struct Web {
    Neighbours next_switches;
    Neighbours previous_switches;
  };

  // The switches reached from one source, in the order of a breadth-first search.
  struct Reach {
    bool searched = false;
    std::vector<Node> before;                 // by switch
    std::vector<int> order;                   // by switch; -1: not reached
    std::vector<int> depth;                   // by switch: edges from the source
    std::vector<float> slowest_gbytes_per_s;  // by switch: on the way there
  };

  void search(const Web& web, Rank src, Reach& reach) const;
  bool walk_back(const Web& web, const Reach& reach, Rank src, Rank dst);
  int switch_index(Node node) const { return node - ranks_; }

  int ranks_;
  std::vector<std::vector<Node>> next_ranks_;  // direct links between ranks, ascending
  Web on_host_;                                // without links of class net
  Web everywhere_;
  std::vector<Reach> reach_on_host_;  // by source rank; searched at the first query
  std::vector<Reach> reach_everywhere_;
  std::vector<Edge> path_;
};

// Lanes of each edge over all parallel links.
std::map<Edge, int> edge_lanes(const Topology& topology);

}  // namespace sccl::topology
