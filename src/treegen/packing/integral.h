// Optimal packings in whole numbers, grown hop by hop with cuts as the proof that nothing is given away.
//
// A theorem says whether unfinished trees can be completed and all further demand be met: Edmonds' (in Frank's form)
// for out-trees, by maximum flows; Tutte's and Nash-Williams' for trees used both ways, by the cheapest partition. A
// hop is taken only if that stays true. Where switches lie between ranks the theorems ask for paths that can be split
// off one at a time; should that fail, the answer is nothing and the caller takes the linear program.
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

// The same for trees that are used in both directions, which may have any root. Links must be symmetric.
std::optional<std::vector<WholeTree>> pack_whole_both_ways(const Links& links, Amount demand, Amount scale);

}  // namespace sccl::treegen
