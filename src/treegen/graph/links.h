// What trees are packed into: hops between ranks, and the capacities of links that hops use.
//
// A hop takes the path that topology::Routes gives, because a send of a schedule takes this path, too. So a tree that
// passes through a switch has a hop whose path does. Two children behind the same uplink load the uplink twice.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/graph/routes.h"
#include "topology/topology.h"
#include "treegen/graph/graph_algorithms.h"
#include "treegen/math/rational.h"

namespace sccl::treegen {

using topology::Edge;
using topology::Node;
using topology::Topology;

// The capacity of one edge, or of the edges of a shared set together.
struct Capacity {
  Amount amount = 0;  // in units of 1 / Links::units_per_lane(): lanes, or a common fraction of all bandwidths
  std::vector<Edge> edges;
};

struct Use {
  int capacity = 0;  // index
  int times = 1;
  auto operator<=>(const Use&) const = default;
};

struct Hop {
  Rank src = 0;
  Rank dst = 0;
  std::vector<Use> uses;
};

// An out-tree: data goes from parent to child. Read backwards it is an in-tree.
struct Tree {
  Rank root = 0;
  std::vector<Rank> parent;  // by rank; -1 for the root

  auto operator<=>(const Tree&) const = default;
};

int depth(const Tree& tree);
std::vector<int> depth_by_rank(const Tree& tree);
// The same undirected tree with another root: the given one, or the one that makes the tree shallowest.
Tree rerooted(const Tree& tree, Rank root);
Tree rerooted_at_centre(const Tree& tree);

enum class CapacityUnit {
  lanes,         // Link::lanes
  gbytes_per_s,  // Link::gbytes_per_s relative to the slowest kind of lane, to a hundredth: fractional capacities
};

class Links {
 public:
  // Throws invalid_argument when the topology is not valid (no ranks, zero lanes).
  explicit Links(const Topology& topology, CapacityUnit unit = CapacityUnit::lanes);

  // All hops and edges reversed: in-trees of these links are out-trees of the reversed links.
  Links reversed() const;

  int ranks() const { return ranks_; }
  int nodes() const { return nodes_; }
  Rational units_per_lane() const { return units_per_lane_; }
  std::span<const Capacity> capacities() const { return capacities_; }
  std::span<const Hop> hops() const { return hops_; }
  int hop(Rank src, Rank dst) const { return hop_of_[static_cast<std::size_t>(src * ranks_ + dst)]; }  // -1: none

  // Single edges have the first capacities, in this order; shared sets have the next ones.
  std::span<const Edge> edges() const { return edges_; }
  bool has_shared_sets() const { return capacities_.size() > edges_.size(); }

  // Whether all capacities are equal in both directions, so that a tree costs the same both ways.
  bool symmetric() const;

  // How often a tree's hops use each capacity: ascending indices.
  std::vector<Use> uses(const Tree& tree) const;

  // Throws invalid_argument naming the root if it is no rank, or the ranks that the root does not reach.
  void require_reachable(Rank root) const;

 private:
  Links() = default;
  void choose_largest_unit();
  void add_hops(const Topology& topology);
  std::string list(const std::vector<Rank>& ranks) const;  // with their devices, if the topology is a subset

  std::string name_;
  std::vector<int> devices_;
  int ranks_ = 0;
  int nodes_ = 0;
  Rational units_per_lane_ = 1;
  std::vector<Edge> edges_;
  std::vector<Capacity> capacities_;
  std::vector<Hop> hops_;
  std::vector<int> hop_of_;
  enum class Direction { forward, reversed } direction_ = Direction::forward;
};

// The uses of a tree's hops together with those of another tree: ascending indices.
std::vector<Use> merged(std::vector<Use> a, std::span<const Use> b);

}  // namespace sccl::treegen
