// AllReduce of long messages over even trees of all ranks (treegen/clusters/even_trees.h): where hosts differ, or
// their links are slow beside their NICs, these leave links less busy than schedules that pass hosts as a whole.
#pragma once

#include <string_view>
#include <vector>

#include "portfolio/portfolio.h"

namespace sccl::portfolio {

inline constexpr std::string_view kEvenTrees = "even-trees";

// Appends candidates if their busiest link is clearly less busy than that of each candidate in `result`, or if `asked`
// names them. Their frames follow one another in an order by time. Takes up to a twentieth of a second.
void add_even_trees(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                    std::string_view asked);

}  // namespace sccl::portfolio
