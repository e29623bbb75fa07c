// Optimal packings in whole numbers, grown hop by hop with maximum flows as the proof that nothing is given away.
//
// Edmonds' theorem in Frank's form: out-trees with given weights can be completed and all further demands be packed if
// and only if every rank still gets, in a maximum flow, as much as all roots and unfinished trees together have to
// offer. A hop is taken only if that stays true. With switches this asks for paths that can be split off one at a
// time; where that fails the packer says so (nothing), and the caller takes the linear program.
#pragma once

#include <optional>
#include <vector>

#include "treegen/links.h"

namespace sccl::treegen {

struct WholeTree {
  Tree tree;
  Amount weight = 0;  // in units of 1 / scale of a capacity unit
};

// Every root's demand, in whole units of capacities multiplied by `scale`, as weighted out-trees: the heaviest trees
// that are found first, shallow ones preferred. Nothing for topologies with shared sets, or when a demand cannot be
// met. O(trees * ranks^2) maximum flows.
std::optional<std::vector<WholeTree>> pack_whole(const Links& links, const std::vector<Amount>& demand_by_root,
                                                 Amount scale);

}  // namespace sccl::treegen
