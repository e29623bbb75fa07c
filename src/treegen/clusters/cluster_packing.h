// Trees that reach the best rate of AllGather, ReduceScatter, Broadcast, Reduce or AllReduce on a cluster of hosts
// alike, found on one host.
//
// The bound. Let every rank send x. A set S of nodes that lacks a rank must pass x times its ranks over the links that
// leave it, so 1/x is at least max |ranks of S| / B+(S) (ForestColl). On hosts alike behind one network, whose switches
// bound nothing, links leave S host by host: with the network in S, the part of the ranks that a host lacks must enter
// that host; without the network, S passes its hosts' own data out, and the worst of these hosts alone is as bad. Both
// are cuts of one host and a rank `outside` that sends what all other hosts send (like_hosts.h). So a maximum flow to
// each rank of that small topology tells whether x is possible, whatever the number of hosts, and Newton's method finds
// the exact x (treegen/graph/bounds.h).
//
// The trees. Edmonds' theorem, on the same small topology, gives trees from each position (its own data) and from
// outside (what other hosts send). A tree from outside enters a host at the children of `outside`, its entries: there
// may be several, for example one on each socket. A tree of the cluster takes a tree of its root's position on its
// host, one from outside on every other host, and any tree over hosts; an entry hears from the device at the same
// position of the parent host.
//
// Why that suffices, and what check() checks. Let the tree over hosts be by distance from the root's host round the
// cluster, and let every tree be there once for each host, turned by that host. Then
//   1. turning is an automorphism, so a tree that spans spans in every turn: one representative is checked;
//   2. a link of a host carries, over all turns, what the representative puts on that link of all hosts together: these
//      sums are checked against the capacities of one host, with the paths that sends take;
//   3. every rank is the root of the same weight: the representatives of each position add up to the rate.
// Trees of Broadcast and Reduce have one root and are not turned: their loads are checked host by host.
#pragma once

#include <vector>

#include "treegen/clusters/like_hosts.h"
#include "treegen/packing/pack.h"

namespace sccl::treegen {

// Out-trees on LikeHosts::one. For collectives that reduce, they are read backwards.
struct HostTree {
  Tree tree;
  Rational weight;  // in capacity units; for AllGather of `one` data of every rank
};

struct TreeOrbit {
  Route route;           // over the cluster's ranks, with its root on the first host
  Rational weight;       // in lanes
  int multiplicity = 1;  // the number of hosts if turned by each host, else 1
};

struct ClusterPacking {
  Collective collective = Collective::allgather;
  Rank root = 0;
  int hosts = 0;
  int devices = 0;
  Rational rate;  // in lanes, as Packing::rate
  Rational optimum;
  Proof proof = Proof::cut;
  // On LikeHosts::one; the rank `outside` stands for all other hosts.
  Bound bound;
  std::vector<TreeOrbit> orbits;
  int candidates = 0;

  int depth() const;
};

// `root` must be a rank for Broadcast and Reduce. Throws invalid_argument when some rank cannot reach another, and
// internal_error when a result fails its own check.
ClusterPacking pack_cluster(const LikeHosts& hosts, Collective collective, Rank root, const PackOptions& options = {});

// The tree turned by `turns` hosts: data of (host h, position p) becomes that of (h + turns, p).
Tree turned(const LikeHosts& hosts, const Tree& tree, int turns);

// All trees of all turns.
std::vector<WeightedRoute> all_routes(const LikeHosts& hosts, const ClusterPacking& packing);

// Throws internal_error when a tree does not span, a root or a sum of weights is wrong, or a link carries too much.
// Every packing that pack_cluster() returns has passed.
void check(const LikeHosts& hosts, const ClusterPacking& packing, const PackOptions& options);

}  // namespace sccl::treegen
