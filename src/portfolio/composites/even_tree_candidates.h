// AllReduce of long messages over even trees of all ranks (treegen/clusters/even_trees.h): where hosts differ, or
// their links are slow beside their NICs, these leave links less busy than composites that pass hosts as a whole.
//
// The candidates are composites with all ranks as one host (compose/form/composite.h), in an order by time. Each rank
// is the root of equally many trees: how busy links are does not depend on roots. Their closed form is fitted to two
// simulations.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "portfolio/composites/composites.h"

namespace sccl::portfolio {

inline constexpr std::string_view kEvenTrees = "even-trees";
inline constexpr int kMostEvenTreeRanks = 64;  // on more, an order and the simulations of it take too long

// Appends candidates of AllReduce if their busiest link is clearly less busy than that of each candidate in `result`.
// Takes up to a fifth of a second.
void add_even_trees(std::vector<CompositeCandidate>& result, const std::shared_ptr<const topology::Topology>& topology,
                    const topology::Cluster& cluster, compose::Verifier& verifier);

}  // namespace sccl::portfolio
