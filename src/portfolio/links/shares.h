// How much of the data each member takes: ports of a host and hosts of a cluster, in proportion to what joins them.
#pragma once

#include <vector>

namespace sccl::portfolio {

// Indices, each as often as its share says: turns that chunks take. About 16 in all at most, or two for each of more
// than 16 members.
std::vector<int> in_proportion(const std::vector<double>& shares);

// The parts of the data of which each member is the root, if partial sums go to the root and results come from there
// directly. A member that is the root of a share w sends (1 - w) of the data and receives w from each other member; the
// same again for results. All members finish at the same time T where w = (T rate - 1) / (members - 2).
std::vector<double> root_shares(const std::vector<double>& rates);

}  // namespace sccl::portfolio
