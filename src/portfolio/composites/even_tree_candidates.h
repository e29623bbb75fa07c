// AllReduce, AllGather and ReduceScatter of long messages over even trees of all ranks
// (treegen/clusters/even_trees.h): where hosts differ, their links are slow beside their NICs, or few of their devices
// have NICs, these leave links less busy than composites that pass hosts as a whole.
//
// The candidates are composites with all ranks as one host (compose/form/composite.h), in an order by time. AllReduce:
// some ranks are roots, each of equally many trees; how busy links are does not depend on roots. AllGather and
// ReduceScatter: the trees of a rank carry its block. Broadcast and Reduce: all trees are the root's. Their closed form
// is fitted to simulations of short and of long chunks.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "portfolio/composites/composites.h"

namespace sccl::portfolio {

inline constexpr std::string_view kEvenTrees = "even-trees";
inline constexpr int kMostEvenTreeRanks = 64;       // on more, an order and the simulations of it take too long
inline constexpr int kMostRanksFarFromBound = 160;  // the same for fewer trees

// Appends candidates of up to 64 ranks if their busiest link is less busy than that of each candidate in `result`:
// clearly for AllReduce, a little for AllGather and ReduceScatter; for Broadcast and Reduce if `result` foresees that
// long data takes a good part longer than the bound, and these less. On more ranks only if nothing in `result` comes
// near the bound, and by far. Takes up to a seventh of a second; a third where nothing comes near the bound. If
// `result` is empty, as of hosts without a common network, a composite of shortest ways comes first. Throws
// invalid_argument where too many ranks would need that.
void add_even_trees(std::vector<CompositeCandidate>& result, const std::shared_ptr<const topology::Topology>& topology,
                    Collective collective, Rank root, const topology::Cluster& cluster, compose::Verifier& verifier);

}  // namespace sccl::portfolio
