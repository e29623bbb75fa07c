// Trees of hosts that stand in racks, for data of one root.
//
// Groups of racks whose lead hosts pass data on, tier by tier, make a lead send to other racks and to its own rack as
// well: where a host's NICs are as busy as the links between racks, it takes twice as long. Trees that know no racks
// cross the links between racks too often, and one chain through all hosts is long. Here are two binary trees whose
// sends are divided: each host sends as often as it receives, each rack gets the data once and sends it on once, and
// the way to the last host has about log2(racks) racks, each passed in one hop or two.
#pragma once

#include <vector>

#include "compose/form/tree.h"

namespace sccl::compose {

// The two trees that chunks take in turn, over positions rack by rack: the root, position 0, is the first host of the
// first rack. `sizes`: of each rack, at least 1. A rack's hosts pass data on to up to two racks in one of the trees and
// to none in the other one; the hosts that send in the one are those that do not in the other, but for one of an even
// number, which sends once in each. The root sends once in each.
std::vector<Tree> trees_of_racks(const std::vector<int>& sizes);

}  // namespace sccl::compose
