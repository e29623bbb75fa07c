// Optimal packings in whole numbers, grown hop by hop; cuts prove that no hop loses optimality.
//
// A theorem says whether unfinished trees can be completed and all remaining demand be met: for out-trees Edmonds' (in
// Frank's form), by maximum flows; for trees used both ways Tutte's and Nash-Williams', by the cheapest partition. A
// hop is taken only if this stays true. With switches between ranks the theorems require paths that can be split off
// one at a time; if that fails, the result is nothing and the caller uses the linear program.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "treegen/graph/links.h"

namespace sccl::treegen {

struct WholeTree {
  Tree tree;
  Amount weight = 0;  // in units of 1 / scale of a capacity unit
};

inline constexpr Amount kAnyWeight = std::numeric_limits<Amount>::max();

// Every root's demand, in whole units of capacities multiplied by `scale`, as weighted out-trees: the heaviest trees
// that are found first, none heavier than `heaviest`, shallow hops preferred. Nothing for topologies with shared sets,
// or when a demand cannot be met. O(trees * ranks^2) maximum flows.
std::optional<std::vector<WholeTree>> pack_whole(const Links& links, const std::vector<Amount>& demand_by_root,
                                                 Amount scale, Amount heaviest = kAnyWeight);

// As pack_whole(), for trees used in both directions, which may have any root. Links must be symmetric.
std::optional<std::vector<WholeTree>> pack_whole_both_ways(const Links& links, Amount demand, Amount scale);

}  // namespace sccl::treegen
