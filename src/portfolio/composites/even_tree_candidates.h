// AllReduce, AllGather and ReduceScatter of long messages over even trees of all ranks
// (treegen/clusters/even_trees.h): where hosts differ, their links are slow beside their NICs, or few of their devices
// have NICs, these leave links less busy than composites that pass hosts as a whole.
//
// The candidates are composites with all ranks as one host (compose/form/composite.h), in an order by time. AllReduce:
// some ranks are roots, each of equally many trees; how busy links are does not depend on roots. AllGather and
// ReduceScatter: the trees of a rank carry its block. Their closed form is fitted to two simulations.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "portfolio/composites/composites.h"

namespace sccl::portfolio {

inline constexpr std::string_view kEvenTrees = "even-trees";
inline constexpr int kMostEvenTreeRanks = 64;       // on more, an order and the simulations of it take too long
inline constexpr int kMostRanksFarFromBound = 160;  // the same for fewer trees

// Appends candidates if their busiest link is less busy than that of each candidate in `result`: clearly for AllReduce,
// a little for AllGather and ReduceScatter of up to 32 ranks. On more ranks, and there for Broadcast and
// Reduce, too, only if nothing in `result` comes near the bound, and by far. Takes up to a seventh of a second; a third
// where that is so. If `result` is empty, as of hosts without a common network, a composite of shortest ways comes
// first. Throws invalid_argument where too many ranks would need that.
void add_even_trees(std::vector<CompositeCandidate>& result, const std::shared_ptr<const topology::Topology>& topology,
                    Collective collective, Rank root, const topology::Cluster& cluster, compose::Verifier& verifier);

}  // namespace sccl::portfolio
