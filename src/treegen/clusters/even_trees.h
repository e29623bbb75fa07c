// Trees over all ranks of a cluster that leave links evenly busy, found tree by tree.
//
// Hosts of one cluster may differ in their NICs and in the links between their devices. Where those are slow, data
// should enter a host at many devices, where they are fast at few; a packing over all ranks knows no hosts and finds
// that. The linear program (packing/tree_program.h) takes seconds for fifty ranks. Here each tree is a minimum spanning
// tree by prices that grow exponentially with how busy a link is (Garg and Koenemann's prices). Afterwards each tree is
// taken out and found anew, a few times, with steeper prices. The result is mostly within 2 % of the program's.
//
// A device's connections to others behind a switch share its link there, and take turns, whatever is urgent. So trees
// prefer the pairs of ranks that other trees use: with one or two peers for each NIC instead of ten, links are as busy,
// and chunks wait for a tenth of the time less.
#pragma once

#include <vector>

#include "treegen/graph/links.h"

namespace sccl::treegen {

// `count` trees of equal weight, rooted at their centres; sums go up a tree and copies down. Nothing if links have no
// bandwidth, or no tree with ways in both directions joins all ranks. A pure function of its arguments;
// O(count x ranks^2 x links of a path).
std::vector<Tree> even_trees(const Topology& topology, int count);

// No trees of an AllGather, a ReduceScatter or an AllReduce leave the busiest link less to do: what enters or leaves
// one rank at least, or all of them together, over all links there. Per byte of L (schedule/simulation/cost.h).
// O(links).
double least_busiest_us_per_byte(const Topology& topology, Collective collective);

// What passes the trees: copies from the roots, or sums to them.
enum class Reading : std::uint8_t { copies, sums };

// Whether each rank has few peers behind switches. Mostly chunks wait less then; with chains of devices below many
// switches they may wait more.
enum class Peers : std::uint8_t { few, any };

// For AllGather or ReduceScatter: `trees_of_rank` out-trees of equal weight for each rank as their root, the first of
// each rank first. A tree is grown by its cheapest edges, and then each rank moves to its cheapest parent. Nothing if
// links have no bandwidth, or some rank does not reach another one. A pure function of its arguments;
// O(trees_of_rank x ranks^3 x links of a path).
std::vector<Tree> even_trees_of_ranks(const Topology& topology, Reading reading, int trees_of_rank,
                                      Peers peers = Peers::few);

// The same for Broadcast or Reduce: `count` trees of one root.
std::vector<Tree> even_trees_of_root(const Topology& topology, Reading reading, Rank root, int count);

}  // namespace sccl::treegen
